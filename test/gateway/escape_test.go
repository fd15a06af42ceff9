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
// gateway, for each way to stay alive and each way to end.
func TestEscape(t *testing.T) {
	t.Parallel()
	fill := func(title string, modes []escape.Mode, ends []End) {
		FillTable(t, title, escape.Backend{Name: "cgroup"}, modes, ends, cellInWorld)
	}
	modes := Modes(t, binaries.Programs)
	ends := append(Ends(), End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup})
	if escape.Full() {
		fill("escape below a gateway", modes, ends)
		return
	}
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

func cellInWorld(t *testing.T, m escape.Mode, e End) escape.Result {
	w := newWorld(t)
	c := &Cell{
		T: t, End: e, G: w.gateway("--eof-grace", "200ms", "--term-grace", "200ms"), Groups: w.slice(), Explain: w.explain,
		Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) },
	}
	options := []string{"--sibling", w.Seen(w.Unique("sibling")), "--scratch", w.Seen(w.Unique("scratch")), ""}
	r := c.Judge(strings.Join(options, " "), m.Name, w.Root, w.Plain("beside", w.Unique("beside")))
	w.clean()
	return r
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
