// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A gateway's server is frozen when it is idle, answers, and ends with the gateway, also without a watcher.
func TestIdleServer(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(*Gateway, *Server) error{
		"idle": func(_ *Gateway, s *Server) error { return escape.AwaitIdle(s.Group, 3, escape.Patience) },
		"not yet idle": func(g *Gateway, s *Server) error { // the watcher dies between the freeze and its note of that
			g.Answers("one")
			return bed.Write(s.Group+"/cgroup.freeze", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--idle-freeze", "50ms", "--match", "zoo")
			s := g.Server(binaries.Programs, "one", "plain")
			idle := func(wakes int) {
				if err := escape.AwaitIdle(s.Group, wakes, escape.Patience); err != nil {
					t.Fatal(err)
				}
			}
			for wakes := range 3 {
				idle(wakes)
				g.Answers("one")
			}
			if err := last(g, s); err != nil {
				t.Fatal(err)
			}
			w.kill(w.watchers)
			w.await(w.watchers)
			g.Answers("one")
			idle(0)
			g.Answers("one")
			idle(1)
			g.Own.Signal(unix.SIGKILL)
			s.Gone(t)
			w.clean()
		})
	}
}
