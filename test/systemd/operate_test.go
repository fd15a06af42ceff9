// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os/exec"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/operate"
	"github.com/mcpscope/mcpscope/test/transparent"
)

func (y *yard) operated() operate.Subject {
	return operate.Subject{Backend: y.backend(backendOf(y.user)), Program: mcpscope, Probe: transparent.ProgramsIn(host.Shared).Probe}
}

// operated runs a test of the commands for operators where groups are a manager's scopes.
func operated(t *testing.T, test func(*testing.T, operate.Subject)) {
	t.Parallel()
	host.Both(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		test(t, y.operated())
	})
}

func TestOperators(t *testing.T)      { operated(t, operate.All) }
func TestSeedCronJobs(t *testing.T)   { operated(t, operate.CronJobs) }
func TestSeedReconnects(t *testing.T) { operated(t, operate.Reconnects) }

func TestChurn(t *testing.T) {
	if !escape.Full() {
		t.Skip("as on groups that no manager makes (test/e2e), and slower: make test-full")
	}
	host.Both(t, func(t *testing.T, u host.User) {
		y := newYard(t, u)
		operate.Churn(t, y.operated())
	})
}

func TestServerOfAnotherUser(t *testing.T) {
	t.Parallel()
	host.Both(t, func(t *testing.T, u host.User) {
		if u.UID == 0 {
			y := newYard(t, u)
			other := func(args ...string) *exec.Cmd { return y.host.Command(host.Tester, args...) }
			operate.Stranger(t, y.operated(), other)
		}
	})
}
