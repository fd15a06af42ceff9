// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"testing"

	"github.com/mcpscope/mcpscope/test/gateway"
	"github.com/mcpscope/mcpscope/test/host"
)

// However few descriptors a watcher has, no server stays in a scope that nobody supervises: a sweep would end it while
// its client uses it.
func TestFewDescriptors(t *testing.T) {
	some := 0
	for limit := 56; limit < 76; limit += 2 {
		s := serve(t, host.Root, "--backend systemd-system", fmt.Sprint("LimitNOFILE=", limit))
		s.Gateway.Explain = "" // not all are taken
		var all []*gateway.Server
		for i := range 8 {
			all = append(all, s.Gateway.Server(programs, fmt.Sprint("s", i), "setsid"))
		}
		sweep := host.Current(t).Command(host.Root, host.Shared+"/mcpscope", "sweep")
		if out, err := sweep.CombinedOutput(); err != nil {
			t.Errorf("sweep: %v: %s", err, out)
		}
		for _, server := range all {
			if server.Main.Ended(0) {
				t.Errorf("with %d descriptors: %s, which is in use, has ended", limit, server.Name)
			}
		}
		if n := len(host.Root.Scopes("*")); n > 0 && n < len(all) {
			some++
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if some == 0 {
		t.Error("all or none had a scope: this tests nothing")
	}
}
