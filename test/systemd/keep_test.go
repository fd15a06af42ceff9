// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// What is kept outlives its server, and ends with the unit of its client.
func TestKeptEndsWithUnit(t *testing.T) {
	host.Both(t, func(t *testing.T, u host.User) {
		t.Parallel()
		m := escape.NewMembers(t)
		first := []string{mcpscope, "run", "--name", "keeper", "--keep", "kept-unit*", "--eof-grace", "200ms", "--",
			programs.Zoo, "--register", m.Address, "--target", "kept-unit", "daemons"}
		unit := startClientUnit(t, u, host.Service{User: u}, first, []string{"sleep", "1"})
		client := unit.first.attach(t)
		if err := m.UntilReady(escape.Patience); err != nil {
			t.Fatalf("%v; stderr: %s", err, escape.Contents(client.Stderr))
		}
		client.Tell("close")
		if !m.AwaitLiving(3, escape.Patience) {
			t.Errorf("want the daemon, its window, and the detached program:\n\t%s", strings.Join(m.Survivors(), "\n\t"))
		}
		where := ""
		isKept := pace.Eventually(escape.Patience, func() bool {
			where, _ = bed.ProcessPath(m.Find("/daemon")) // "", if it has ended
			return strings.HasPrefix(filepath.Base(where), "mcpscope-kept-")
		})
		if !isKept {
			t.Fatalf("the daemon is in %q", where)
		}
		scope := filepath.Base(where)
		service := control(t, u, "show", "--value", "--property=BindsTo", scope)
		if !strings.HasSuffix(service, ".service") {
			t.Errorf("%s is bound to %q", scope, service)
		}
		if err := unit.Stop(); err != nil {
			t.Error(err)
		}
		m.WantDead(t)
	})
}
