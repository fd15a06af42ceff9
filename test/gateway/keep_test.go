// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A daemon that a pattern keeps lives through each end of a gateway's server, and of the gateway, and mcpscope stop
// ends it. The other daemon ends with the server.
func TestKeep(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, *Gateway, *Server){
		"stdin": func(_ *world, g *Gateway, _ *Server) { g.Tell("close one") },
		"kill":  func(_ *world, _ *Gateway, s *Server) { s.Main.Signal(unix.SIGKILL) },
		"stop":  func(w *world, _ *Gateway, s *Server) { w.run("stop", s.ID) },
		"watcher": func(w *world, g *Gateway, _ *Server) {
			w.kill(w.watchers)
			w.await(w.watchers)
			g.Tell("close one")
		},
		"gateway": func(_ *world, g *Gateway, _ *Server) { g.Own.Signal(unix.SIGKILL) },
		"exit":    func(_ *world, g *Gateway, _ *Server) { g.Tell("exit 1") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--match", "zoo", "--keep", "kept-dae*", "--eof-grace", "100ms", "--term-grace", "100ms")
			s := g.Server(binaries.Programs, "one", "--target kept-daemon daemons")
			end(w, g, s)
			if !s.AwaitLiving(3, escape.Patience) {
				t.Errorf("want the daemon, its window, and the detached program:\n\t%s", strings.Join(s.Survivors(), "\n\t"))
			}
			for _, role := range []string{"/daemon", "/window", "/detached"} {
				where := ""
				isKept := pace.Eventually(escape.Patience, func() bool {
					where, _ = bed.ProcessPath(s.Find(role)) // "", if it has ended
					return strings.HasPrefix(filepath.Base(where), "mcpscope-kept-")
				})
				if !isKept {
					t.Errorf("the %s is in %q", role, where)
				}
			}
			w.run("stop", "kept-daemon", "kept-daemon+")
			s.Gone(t)
			g.Own.Signal(unix.SIGKILL)
			w.clean()
		})
	}
}
