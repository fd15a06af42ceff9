// SPDX-License-Identifier: Apache-2.0

package advice

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
