// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// TestEscape holds the promise that nothing survives and nothing else dies for servers below a
// gateway, for each way to stay alive and each way to end: for servers that are known before they run, and
// for some that are known by their first message when all their members are up.
func TestEscape(t *testing.T) {
	t.Parallel()
	modes, ends := Modes(t, binaries.Programs), append(Ends(), End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup})
	fill := func(title string, late bool, modes []escape.Mode, ends []End) {
		cell := func(t *testing.T, m escape.Mode, e End) escape.Result { return cell(t, m, e, late) }
		FillTable(t, title, escape.Backend{Name: "cgroup"}, modes, ends, cell)
	}
	fill("below a gateway", false, modes, ends)
	few := func(e End) bool { return e.Name != "gw-kill" && e.Name != "stdin" }
	// A server that is waited for reads its message at once.
	modes = slices.DeleteFunc(slices.Clone(modes), func(m escape.Mode) bool { return m.Name == "frozen" })
	fill("before the first message", true, modes, slices.DeleteFunc(ends, few))
}

// killGroup is what a unit's stop comes to in the end.
func killGroup(c *Cell) {
	c.T.Helper()
	if err := bed.Kill(filepath.Join(bed.Root(c.T), mustPath(c.T, c.G.PID)), escape.Patience); err != nil {
		c.T.Error(err)
	}
}

func cell(t *testing.T, m escape.Mode, e End, late bool) escape.Result {
	w := newWorld(t)
	flags := []string{"--eof-grace", "200ms", "--term-grace", "200ms"}
	if !late {
		flags = append(flags, "--match", "zoo")
	}
	c := &Cell{T: t, End: e, Late: late, G: w.gateway(flags...), Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) }}
	options := []string{"--sibling", w.Seen(w.Unique("sibling")), "--scratch", w.Seen(w.Unique("scratch")), ""}
	r := c.Judge(strings.Join(options, " "), m.Name, w.Root, w.Plain("beside", w.Unique("beside")))
	w.clean()
	return r
}

// With nobody left who guards it a server is an orphan, and a sweep finds who has moved away, too.
func TestSweepFindsWhoMovedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "--sibling "+w.Seen(w.Unique("sibling"))+" move-sibling")
	guards := append(w.watchers(), s.Supervisor)
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // none is to act on another's end
		for _, p := range guards {
			p.Signal(sig)
		}
	}
	w.ended(guards)
	g.Own.Signal(unix.SIGKILL)
	if len(s.Running()) < 2 {
		t.Errorf("without guards %q live: then this tests nothing", s.Running())
	}
	w.run("sweep")
	s.Gone(t)
	w.clean()
}
