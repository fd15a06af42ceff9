// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A server with a small limit of open files ends like any other: its brains, which share the limit, may find no
// descriptor for the group.
func TestStopWithFewDescriptors(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*escape.Client){
		"stdin": func(c *escape.Client) { c.Tell("close") },
		"TERM":  func(c *escape.Client) { c.Server.Signal(unix.SIGTERM) },
		"kill":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
	}
	for _, backend := range []escape.Backend{cgroup, tree} {
		for limit := 12; limit < 30; limit++ {
			for name, end := range ends {
				t.Run(fmt.Sprint(backend.Name, "/", limit, "/", name), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					m := escape.NewMembers(t)
					c := w.NewClient(w.Unique("client"), []string{"--group"}, []string{
						"sh", "-c", `ulimit -n "$0" && exec "$@"`, fmt.Sprint(limit), binaries.mcpscope, "run", "--backend", backend.Name,
						"--name", "server", "--eof-grace", "100ms", "--term-grace", "100ms", "--", binaries.Zoo, "--register", m.Address, "ignore-both"})
					if !startsOrRefuses(m, c) {
						if said := escape.Contents(c.Stderr); !strings.HasPrefix(said, "mcpscope: ") {
							t.Errorf("it does not start, with %q", said)
						}
						return
					}
					end(c)
					m.WantDead(t)
					escape.WantEnded(t, c.Server)
					if said := escape.Contents(c.Stderr); strings.Contains(said, "goroutine") || strings.Contains(said, "not ended by SIGKILL") {
						t.Errorf("stderr: %s", said)
					}
				})
			}
		}
	}
}

// startsOrRefuses returns whether the server is up. Otherwise its launcher has ended.
func startsOrRefuses(m *escape.Members, c *escape.Client) bool {
	for !c.Server.Ended(0) {
		if m.UntilReady(escape.Patience/10) == nil {
			return true
		}
	}
	return false
}
