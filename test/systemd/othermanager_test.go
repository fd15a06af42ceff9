// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A gateway in a system service with User= has its servers in the user's manager, which
// can't bind them to a unit of the system's.
func TestServersOfASystemServiceOfAUser(t *testing.T) {
	for name, end := range map[string]func(*clientUnit) error{
		"stop":  func(u *clientUnit) error { return u.Stop() },
		"crash": func(u *clientUnit) error { return u.Crash() },
	} {
		t.Run(name, func(t *testing.T) {
			m := escape.NewMembers(t)
			unit := startClientUnit(t, host.Tester, host.Service{User: host.Root, Properties: []string{"User=tester"}},
				zoo("other", m, "ignore-both"), nil)
			c := awaitServer(t, unit.first.attach(t), m, host.Tester.Slice())
			cmd := host.Current(t).Manage(host.Tester, "systemctl", "show", "--value", "--property=BindsTo", filepath.Base(c.scope))
			if out, err := cmd.Output(); strings.TrimSpace(string(out)) != "" || err != nil {
				t.Errorf("the scope is bound to %s, %v", out, err)
			}
			if err := end(unit); err != nil {
				t.Fatal(err)
			}
			c.wantGone(name)
		})
	}
}
