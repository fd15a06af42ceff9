// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"strconv"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A pid is that of a gateway in one pid namespace alone.
func TestIsClient(t *testing.T) {
	own := group.PIDNamespace()
	plain := Running{PID: 7}
	nested := Running{PID: 5007, self: protocol.Identity{PID: 7, Namespace: own + 1}}
	for _, c := range []struct {
		of     Running
		client protocol.Identity
		want   bool
	}{
		{plain, protocol.Identity{PID: 7, Namespace: own}, true},
		{plain, protocol.Identity{PID: 8, Namespace: own}, false},
		{plain, protocol.Identity{PID: 7, Namespace: own + 1}, false},
		{nested, protocol.Identity{PID: 7, Namespace: own + 1}, true},
		{nested, protocol.Identity{PID: 7, Namespace: own}, false},
		{nested, protocol.Identity{PID: 7, Namespace: own + 2}, false},
	} {
		if got := c.of.IsClient(c.client); got != c.want {
			t.Errorf("%+v of %+v: %t", c.client, c.of, got)
		}
	}
}

// The number of a watcher in the pid namespace of /proc is its gateway's.
func TestFindGateway(t *testing.T) {
	for text, want := range map[string]int{"77": 77, strconv.Itoa(os.Getpid()): os.Getpid(), "": 0, "x": 0, "-1": 0} {
		if got := FindGateway(proc.Take(), os.Getpid(), text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
