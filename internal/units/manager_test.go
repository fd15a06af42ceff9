// SPDX-License-Identifier: Apache-2.0

package units

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A user has units below the directory of configurations.
func TestDirOf(t *testing.T) {
	for _, c := range []struct {
		manager              systemd.Kind
		configurations, want string
	}{
		{systemd.System, "", "/etc/systemd/system"},
		{systemd.System, "/root/.config", "/etc/systemd/system"},
		{systemd.User, "/home/ann/.config", "/home/ann/.config/systemd/user"},
	} {
		got, err := dirOf(c.manager, c.configurations)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v", c, got, err)
		}
	}
	if _, err := dirOf(systemd.User, ""); err == nil || err.Error() != "HOME is not set" {
		t.Errorf("without a home: %v", err)
	}
}
