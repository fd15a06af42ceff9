// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"strings"
	"testing"

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
			unit, c := serverInUnit(t, host.Tester, "other", "ignore-both", host.Service{User: host.Root, Properties: []string{"User=tester"}})
			out := host.Must(t, host.Current(t).Manage(host.Tester, "systemctl", "show", "--value", "--property=BindsTo", c.unit()))
			if strings.TrimSpace(out) != "" {
				t.Errorf("the scope is bound to %s", out)
			}
			if err := end(unit); err != nil {
				t.Fatal(err)
			}
			c.wantGone(name)
		})
	}
}
