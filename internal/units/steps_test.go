// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"testing"
)

// The line can be pasted into a shell; the same commands run without one.
func TestShellLine(t *testing.T) {
	unit := `dev-a\x2db.service`
	stop := Step{Argv: []string{"systemctl", "stop", unit}, MayFail: true}
	restart := Step{Argv: []string{"systemctl", "restart", unit}}
	want := `systemctl stop dev-a\\x2db.service; systemctl restart dev-a\\x2db.service && systemctl restart dev-a\\x2db.service`
	if got := ShellLine([]Step{stop, restart, restart}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := restart.String(); got != "systemctl restart "+unit {
		t.Errorf("it is %s", got)
	}
}

// The error of a step has the output of its command, and the reason if there is no such command.
func TestRunStep(t *testing.T) {
	for _, c := range []struct {
		step Step
		want string
	}{
		{Step{Argv: []string{"true"}}, ""},
		{Step{Argv: []string{"sh", "-c", "echo no such unit >&2; exit 5"}}, "exit status 5: no such unit"},
		{Step{Argv: []string{"false"}}, "exit status 1"},
		{Step{Argv: []string{"false"}, MayFail: true}, ""},
		{Step{Argv: []string{"/nonexistent/systemctl"}}, "fork/exec /nonexistent/systemctl: no such file or directory"},
	} {
		text := ""
		if err := c.step.Run(); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", c.step, text, c.want)
		}
	}
}

// The calls are for the manager of this user.
func TestSystemctlStep(t *testing.T) {
	if got := ReloadStep().String(); !strings.HasPrefix(got, "systemctl ") || !strings.HasSuffix(got, " daemon-reload") {
		t.Errorf("it is %s", got)
	}
}
