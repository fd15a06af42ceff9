// SPDX-License-Identifier: Apache-2.0

package units

import "testing"

// A user has units where the manager reads them, whatever the shell has in XDG_CONFIG_HOME.
func TestUserDir(t *testing.T) {
	path := []string{
		"/home/ann/.config/systemd/user.control", "/run/user/1000/systemd/user.control", "/run/user/1000/systemd/transient",
		"/home/ann/.config/systemd/user", "/etc/xdg/systemd/user", "/etc/systemd/user", "/run/user/1000/systemd/user",
		"/home/ann/.local/share/systemd/user", "/usr/lib/systemd/user",
	}
	if got, ok := userDir(path); got != path[3] || !ok {
		t.Errorf("%q, %v", got, ok)
	}
	if got, ok := userDir(path[4:7]); ok {
		t.Errorf("%q is the user's own", got)
	}
}

// The line can be pasted into a shell.
func TestShellLine(t *testing.T) {
	stop := Step{Command: "systemctl stop a"}
	restart := Step{Command: "systemctl restart a"}
	const want = "systemctl stop a && systemctl restart a"
	if got := ShellLine([]Step{stop, restart}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	name := ServiceName{Entered: `dev-a\x2db`, Full: `dev-a\x2db.service`}
	if got, want := name.tryRestart().Command, systemctl()+` try-restart 'dev-a\x2db'`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
