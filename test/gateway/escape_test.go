// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// TestEscape holds the promise that nothing survives and nothing else dies for servers below a
// gateway, for each way to stay alive and each way to end.
func TestEscape(t *testing.T) {
	t.Parallel()
	fill := func(title string, modes []escape.Mode, ends []End) {
		FillTable(t, title, escape.Backend{Name: "cgroup"}, modes, ends, cellInWorld)
	}
	modes := Modes(t, binaries.Programs)
	ends := append(Ends(), End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup})
	late := func(modes []escape.Mode, ends []End) {
		// Who waits for a message reads it at once, and what has moved its main process is not where that was.
		modes = slices.DeleteFunc(slices.Clone(modes), func(m escape.Mode) bool { return slices.Contains(deaf, m.Name) })
		FillTable(t, "escape below a gateway, before the first message", escape.Backend{Name: "cgroup"}, modes, ends, lateCellInWorld)
	}
	if escape.Full() {
		fill("escape below a gateway", modes, ends)
		late(modes, ends)
		return
	}
	late(escape.Named(t, modes, "setsid", "double-fork", "hop", "dead-leader-main", "ignore-both", "move-sibling", "nested", "new-pid"),
		slices.DeleteFunc(slices.Clone(ends), func(e End) bool { return e.Name != "gw-kill" && e.Name != "stdin" }))
	only := func(name string) func(End) bool { return func(e End) bool { return e.Name != name } }
	hard := slices.DeleteFunc(slices.Clone(modes), func(m escape.Mode) bool { return !slices.Contains(escape.Hardest, m.Name) })
	fill("escape below a gateway, many modes", hard, slices.DeleteFunc(slices.Clone(ends), only("gw-kill")))
	fill("escape below a gateway, every end", escape.Named(t, modes, "setsid", "ignore-both", "move-main", "nested", "dead-leader"), ends)
}

// killGroup is what a unit's stop comes to in the end.
func killGroup(c *Cell) {
	c.T.Helper()
	bed.Require(c.T, bed.CgroupKill)
	if err := bed.Kill(filepath.Join(bed.Root(c.T), mustPath(c.T, c.G.PID)), escape.Patience); err != nil {
		c.T.Error(err)
	}
}

// deaf are modes whose main process reads nothing.
var deaf = []string{"frozen"}

func cellInWorld(t *testing.T, m escape.Mode, e End) escape.Result { return cell(t, m, e, false) }

func lateCellInWorld(t *testing.T, m escape.Mode, e End) escape.Result { return cell(t, m, e, true) }

func cell(t *testing.T, m escape.Mode, e End, late bool) escape.Result {
	w := newWorld(t)
	c := &Cell{
		T: t, End: e, Late: late, G: w.gateway("--eof-grace", "200ms", "--term-grace", "200ms"), Groups: w.slice(), Explain: w.explain,
		Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) },
	}
	options := []string{"--sibling", w.Seen(w.Unique("sibling")), "--scratch", w.Seen(w.Unique("scratch")), ""}
	r := c.Judge(strings.Join(options, " "), m.Name, w.Root, w.Plain("beside", w.Unique("beside")))
	w.clean()
	return r
}

// What drops its tag is found by its parents before the first message, and by its group afterwards. What does
// both, drop it and leave them, before anybody has spoken to it, is known to stay: docs/use/gateway.md says so.
func TestTagDropped(t *testing.T) {
	for _, c := range []struct {
		mode        string
		late, stays bool
	}{{"setsid", true, false}, {"double-fork", true, true}, {"setsid", false, false}, {"double-fork", false, false}} {
		t.Run(fmt.Sprintf("%s, late %v", c.mode, c.late), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			flags, late := []string{"--term-grace", "200ms"}, c.late
			if !late { // it is not to be a matter of luck
				flags = append(flags, "--match", "zoo")
			}
			g := w.gateway(flags...)
			start := g.Server
			if late {
				start = g.Late
			}
			s := start(binaries.Programs, "a", "--untag yes "+c.mode)
			g.Own.Signal(unix.SIGKILL)
			if !c.stays {
				w.dead(s)
			} else if n := s.UntilFew(1, escape.Patience); n != 1 {
				t.Errorf("%d members are left; if that is none, the documents can say so", n)
			}
			w.clean()
		})
	}
}

// With nobody left who guards it a server is an orphan, and a sweep finds who has moved away, too.
func TestSweepFindsWhoMovedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "--sibling "+w.Seen(w.Unique("sibling"))+" move-sibling")
	guards := append(w.watchers(), supervisorOf(w, s))
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} { // none is to act on another's end
		for _, p := range guards {
			p.Signal(sig)
		}
	}
	for _, p := range guards {
		if !p.Ended(escape.Patience) {
			t.Fatalf("a guard outlived SIGKILL: %s", escape.Describe(p.PID))
		}
	}
	g.Own.Signal(unix.SIGKILL)
	if len(s.Running()) < 2 {
		t.Errorf("without guards %q live: then this tests nothing", s.Running())
	}
	w.run("sweep")
	w.dead(s)
	w.clean()
}
