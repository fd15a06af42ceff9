// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A watcher that runs out of descriptors leaves further servers alone, and none in a group that a sweep would end. How many
// it has left then decides at what it fails, so as many limits in a row are tried as a server takes.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	for limit := 60; limit < 68; limit++ {
		w := newWorld(t)
		g := w.start([]string{
			"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, limit), "sh",
			binaries.mcpscope, "gateway", "--backend", "cgroup", "--", binaries.like, "gateway", "run",
		})
		var all []*Server
		for i := range 8 {
			all = append(all, g.Server(binaries.Programs, fmt.Sprint("s", i), "setsid"))
		}
		w.run("sweep")
		for _, s := range all {
			if s.Main.Ended(0) {
				t.Errorf("with %d descriptors: %s, which is in use, has ended", limit, s.Name)
			}
		}
		if n := len(escape.Servers(w.slice(), "*", "*")); n == 0 || n == len(all) {
			t.Errorf("with %d descriptors %d of %d servers have a group: nothing is tried", limit, n, len(all))
		}
		g.Tell("exit 0")
	}
}
