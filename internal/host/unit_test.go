// SPDX-License-Identifier: Apache-2.0

package host

import "testing"

// A name that no manager assigns never gets into a command for people.
func TestUnitAt(t *testing.T) {
	for group, want := range map[string]string{
		"/system.slice/gw.service":               "sudo systemctl edit gw.service",
		`/system.slice/a\x2db.service`:           `sudo systemctl edit 'a\x2db.service'`,
		"/system.slice/a;reboot.service":         "",
		"/system.slice/a\x1b[31m.service":        "",
		"/mcp.slice/0/mcp-time-k3x9w2ab/payload": "",
	} {
		got := ""
		if u := unitAt(group); u != nil {
			got = u.Edit()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", group, got, want)
		}
	}
}

// An edit of a unit of systemd-run is lost: its next start has another name.
func TestServiceWithoutAName(t *testing.T) {
	for name, want := range map[string]bool{
		"gateway.service": true, "run-gateway.service": true, "run-u19.service": false, "run-p7-i9.service": false,
		"run-r3f8e0b6c1d2a4e5f9a7b8c9d0e1f2a3b.service": false, "run-u19.scope": false, "session-2.scope": false,
	} {
		if got := (&Unit{Name: name}).Service(); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
