// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A manager is given a guard by its pid, which may be another process's when the guard has ended. So it takes
// nothing over without a guard that is held.
func TestAdoptionNeedsAGuard(t *testing.T) {
	c := protocol.NewConfig()
	c.Group.Backend = names.SystemdUser
	c.Group.Managed = true
	own, err := os.Open("/proc/self/exe") // for a pidfd
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if Adoption(c, freeze.Root{PID: 77, PIDFD: int(own.Fd())}) == nil {
		t.Error("no adoption with a guard")
	}
	if Adoption(c, freeze.Root{PID: 77, PIDFD: -1}) != nil {
		t.Error("an adoption by the pid alone")
	}
}
