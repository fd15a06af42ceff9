// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// What a server asks a manager for is not in its group, and this is no promise. If it
// ends one day with the server, the page has to be changed.
func TestUnitThatAServerAskedForSurvives(t *testing.T) {
	page, err := os.ReadFile("../../docs/understand/containment.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "**Asking a daemon**: what systemd,") {
		t.Error("the page on containment does not say so")
	}
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		asked := h.Manage(u, "systemd-run", "--quiet", "--collect", "--unit=asked", "--property=KillSignal=SIGKILL",
			programs.Zoo, "--register", m.Address, "ignore-both")
		script := strings.Join(asked.Args, " ") + `; echo ready; read -r l`
		cmd := h.Command(u, run(u, "asks", "sh", "-c", script)...)
		cmd.Env = append(cmd.Environ(), asked.Env...)
		r := start(t, u, cmd, "asks")
		t.Cleanup(func() {
			if out, err := h.Manage(u, "systemctl", "stop", "asked.service").CombinedOutput(); err != nil {
				t.Errorf("stop: %v: %s", err, out)
			}
			if n := m.UntilDead(patience); n > 0 {
				t.Errorf("%d left after the unit's own stop", n)
			}
		})
		if err := m.UntilReady(patience); err != nil {
			t.Fatal(err)
		}
		_ = r.Stdin.Close()
		_ = r.Cmd.Wait() // with the server's status
		gone(t, r.scope)
		if n := len(m.Running()); n != 1 {
			t.Errorf("%d processes live in the unit that the server asked for, want 1", n)
		}
	})
}
