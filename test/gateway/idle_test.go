// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A server of a gateway is frozen when it is idle, answers, and ends with the gateway, whoever watches it.
func TestIdleServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--idle-freeze", "50ms", "--match", "zoo")
	s := g.Server(binaries.Programs, "one", "plain")
	for wakes := range 3 {
		if err := escape.AwaitIdle(s.Group, wakes, escape.Patience); err != nil {
			t.Fatal(err)
		}
		g.Answers("one")
	}
	if err := escape.AwaitIdle(s.Group, 3, escape.Patience); err != nil {
		t.Fatal(err)
	}
	w.kill(w.watchers)
	w.await(w.brains)
	g.Answers("one")
	if err := escape.AwaitIdle(s.Group, 1, escape.Patience); err != nil {
		t.Fatal(err)
	}
	g.Answers("one")
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}
