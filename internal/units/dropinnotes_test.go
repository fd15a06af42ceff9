// SPDX-License-Identifier: Apache-2.0

package units

import "testing"

// The log of the servers is found by the identifier that the drop-in sets: the unit's name, which no other service has.
func TestLogCommand(t *testing.T) {
	for lines, want := range map[string]string{
		"ExecStart=-/usr/bin/node g.js\n":               "journalctl -t g",
		"ExecStart=\"/opt/a b\"\n":                      "journalctl -t g",
		"ExecStart=/bin/g\nSyslogIdentifier=my-gw\n":    "journalctl -t my-gw",
		"ExecStart=/bin/g\nSyslogIdentifier=my-gw-%i\n": "",
	} {
		s := serviceOf(fragment(lines))
		file, err := dropIn(s, both)
		if got := s.logCommand(file); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", lines, got, err, want)
		}
	}
}
