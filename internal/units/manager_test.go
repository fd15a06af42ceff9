// SPDX-License-Identifier: Apache-2.0

package units

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A user has units below the directory of configurations.
func TestDirOf(t *testing.T) {
	for _, c := range []struct {
		manager         systemd.Kind
		home, xdg, want string
	}{
		{systemd.System, "", "", "/etc/systemd/system"},
		{systemd.System, "/root", "", "/etc/systemd/system"},
		{systemd.User, "/home/ann", "", "/home/ann/.config/systemd/user"},
		{systemd.User, "/home/ann", "/x", "/x/systemd/user"},
	} {
		variables := map[string]string{"HOME": c.home, "XDG_CONFIG_HOME": c.xdg}
		got, err := dirOf(c.manager, func(name string) string { return variables[name] })
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
}
