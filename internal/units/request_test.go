// SPDX-License-Identifier: Apache-2.0

package units

import "testing"

// The printed line can be pasted into a shell; the same commands run without one.
func TestJoinSteps(t *testing.T) {
	unit := `dev-a\x2db.service`
	stop := step{argv: []string{"systemctl", "stop", unit}, mayFail: true}
	restart := step{argv: []string{"systemctl", "restart", unit}}
	want := `systemctl stop dev-a\\x2db.service; systemctl restart dev-a\\x2db.service && systemctl restart dev-a\\x2db.service`
	if got := joinSteps([]step{stop, restart, restart}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := restart.String(); got != "systemctl restart "+unit {
		t.Errorf("it prints %s", got)
	}
}
