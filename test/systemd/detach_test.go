// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// A unit that a manager starts for a server survives it. By `mcpscope detach` it has the server's environment
// but not its mark. By systemd-run it has the mark, but no sweep stops it: a variable proves nothing.
func TestUnitsThatAServerAsksForSurvive(t *testing.T) {
	h := host.Current(t)
	host.Both(t, func(t *testing.T, u host.User) {
		m := escape.NewMembers(t)
		dir := host.Directory(t, u)
		t.Cleanup(func() { host.StopUnits(t, u, "escaped.service", "detached-*") })
		t.Cleanup(m.Kill)
		member := programs.Zoo + " --register " + m.Address + " ignore-both"
		asked := h.Manage(u, "systemd-run", "--quiet", "--collect", "--unit=escaped", `--setenv=MCPSCOPE_ID=$MCPSCOPE_ID`, member)
		script := fmt.Sprintf(`%s; echo "${BROWSER-unset}" >%[3]s/browser
			A='$HOME 1' B="$(printf '\1')" env a-b=c %[2]s detach -- sh -c 'env >%[3]s/env; exec %[4]s'; echo ready; cat`, strings.Join(asked.Args, " "), mcpscope, dir, member)
		cmd := h.Command(u, append(run(u, "asks"), "sh", "-c", script)...)
		cmd.Env = append(append(cmd.Environ(), "DISPLAY=:0"), asked.Env...)
		k := escape.StartTalk(t, cmd, cmd.Start)
		k.Hear("ready")
		if !m.AwaitBorn(2, patience) {
			t.Fatal("neither unit has started its process")
		}
		if env, err := os.ReadFile(dir + "/env"); err != nil || !strings.Contains(string(env), "\nA=$HOME 1\n") || strings.Contains(string(env), "MCPSCOPE_ID=") {
			t.Errorf("the environment of what was detached: %s, %v", env, err)
		}
		if browser, _ := os.ReadFile(dir + "/browser"); string(browser) != "unset\n" {
			t.Errorf("BROWSER is %q: the environment of a graphical session is not changed", browser)
		}
		k.Stdin.Close()
		_ = k.Wait() // with the server's status
		if n := len(m.Running()); n != 2 {
			t.Errorf("%d processes outlive the server, want both: what a manager starts is not the server's", n)
		}
		host.Must(t, h.Command(u, mcpscope, "sweep", "--yes", "--older-than", "0"))
		if n := len(m.Running()); n != 2 {
			t.Errorf("%d processes live after the sweep, want both: %q", n, m.Survivors())
		}
	})
}
