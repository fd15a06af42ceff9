// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A server with the fewest descriptors ends like any other: its guard and helpers share the limit.
func TestStopWithFewDescriptors(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*escape.Client){
		"stdin": func(c *escape.Client) { c.Tell("close") },
		"TERM":  func(c *escape.Client) { c.Server.Signal(unix.SIGTERM) },
		"kill":  func(c *escape.Client) { c.Server.Signal(unix.SIGKILL) },
	}
	for _, backend := range []escape.Backend{cgroup, tree} {
		for _, flags := range []string{"--verbose", "--idle-freeze 1h"} {
			for end, do := range ends {
				t.Run(fmt.Sprint(backend.Name, "/", flags, "/", end), func(t *testing.T) {
					t.Parallel()
					stopWithFew(t, append(strings.Fields(flags), "--backend", backend.Name), do)
				})
			}
		}
	}
}

func stopWithFew(t *testing.T, flags []string, end func(*escape.Client)) {
	w := newWorld(t)
	m := escape.NewMembers(t)
	line := []string{"sh", "-c", `ulimit -n "$0" && exec "$@"`, fmt.Sprint(escape.Fewest), binaries.mcpscope, "run", "--name", "server",
		"--eof-grace", "100ms", "--term-grace", "100ms"}
	line = append(append(line, flags...), "--", binaries.Zoo, "--register", m.Address, "ignore-both")
	c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
	if err := m.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
	}
	end(c)
	m.WantDead(t)
	escape.WantEnded(t, c.Server)
	if said := escape.Contents(c.Stderr); strings.Contains(said, "goroutine") || strings.Contains(said, "not ended by SIGKILL") {
		t.Errorf("stderr: %s", said)
	}
}
