// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
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

// A server that waits to write to stderr is not frozen: the write would be cut short.
func TestFullStderrIsNotIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := filepath.Join(t.TempDir(), "full")
	if err := unix.Mkfifo(full, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(full, os.O_RDWR, 0) // which reads nothing
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	script := w.script("writes", `exec 2>`+full+`; dd if=/dev/zero bs=200000 count=1 >&2 & exec "$@"`)
	g := w.gateway("--idle-freeze", "50ms", "--match", "zoo", "--match", "writes")
	s := g.Born("server", "one", script+" "+binaries.Zoo, "plain")
	g.capture(s)
	if err := escape.AwaitNote(s.Group, "not idle: the client does not read its output", escape.Patience); err != nil {
		t.Error(err)
	}
	g.Answers("one")
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}
