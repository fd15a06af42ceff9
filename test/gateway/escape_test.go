// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path/filepath"
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
	ends := append(Ends(), End{Name: "gw-cgroup", Gateway: true, Tools: true, Do: killGroup})
	FillTable(t, "below a gateway", escape.Backend{Name: "cgroup"}, Modes(t, binaries.Programs), ends, cell)
}

// killGroup is the last step of a unit's stop.
func killGroup(c *Cell) {
	c.T.Helper()
	if err := bed.Kill(filepath.Join(bed.Root(c.T), mustPath(c.T, c.G.PID)), escape.Patience); err != nil {
		c.T.Error(err)
	}
}

func cell(t *testing.T, m escape.Mode, e End) escape.Result {
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--eof-grace", "200ms", "--term-grace", "200ms")
	c := &Cell{T: t, End: e, G: g, Programs: binaries.Programs, Run: func(args ...string) { w.run(args...) }}
	options := append([]string{"--sibling", w.Seen(w.Unique("sibling")), "--scratch", w.Seen(w.Unique("scratch"))}, m.Nice()...)
	r := c.Judge(strings.Join(options, " ")+" ", m.Name, w.Root, w.Plain("beside", w.Unique("beside")))
	w.clean()
	return r
}

// Without guards a server is an orphan, and a sweep also finds members that have moved away.
func TestSweepFindsWhoMovedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "--sibling "+w.Seen(w.Unique("sibling"))+" move-sibling")
	if err := escape.KillTogether(w.await(w.guards), w.await(w.watchers)); err != nil {
		t.Error(err)
	}
	g.Own.Signal(unix.SIGKILL)
	if len(s.Running()) < 2 {
		t.Errorf("without guards %q live: then this tests nothing", s.Running())
	}
	w.run("sweep")
	s.Gone(t)
	w.clean()
}
