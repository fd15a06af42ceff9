// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// Whoever has frozen a server, it can be ended. systemd 257 refuses to stop a unit that it
// has frozen itself, 252 thaws it: so we ask it for nothing.
func TestEndOfAFrozenScope(t *testing.T) {
	h := host.Current(t)
	well := func(t *testing.T, cmd *exec.Cmd) {
		t.Helper()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", cmd.Args, err, out)
		}
	}
	byUs := func(t *testing.T, u host.User, _ string) { well(t, h.Command(u, mcpscope, "freeze", "frozen")) }
	bySystemd := func(t *testing.T, u host.User, unit string) { well(t, h.Manage(u, "systemctl", "freeze", unit)) }
	stopUnit := func(t *testing.T, u host.User, unit string, _ *running) {
		well(t, h.Manage(u, "systemctl", "stop", unit))
	}
	stop := func(t *testing.T, u host.User, _ string, _ *running) {
		well(t, h.Command(u, mcpscope, "stop", "frozen"))
	}
	endOfStdin := func(_ *testing.T, _ host.User, _ string, r *running) { _ = r.Stdin.Close() }
	killed := func(t *testing.T, u host.User, _ string, r *running) {
		launcher, err := escape.OpenProcess(r.Cmd.Process.Pid) // not waited for
		if err != nil {
			t.Fatal(err)
		}
		defer launcher.Close()
		launcher.Signal(unix.SIGKILL)
		dead(t, "launcher", []process{{launcher}})
		well(t, h.Command(u, mcpscope, "sweep"))
	}
	for _, c := range []struct {
		name   string
		freeze func(*testing.T, host.User, string)
		end    func(*testing.T, host.User, string, *running)
	}{
		{"by mcpscope, unit stopped", byUs, stopUnit},
		{"by systemd, stdin closed", bySystemd, endOfStdin},
		{"by systemd, stopped", bySystemd, stop},
		{"by systemd, launcher killed and swept", bySystemd, killed},
	} {
		t.Run(c.name, func(t *testing.T) {
			host.BothAtOnce(t, func(t *testing.T, u host.User) {
				r := start(t, u, h.Command(u, run(u, "frozen", "sh", "-c", server)...), "frozen")
				all := append(processes(t, r.scope+"/payload"), processes(t, r.scope+"/supervisor")...)
				unit := filepath.Base(r.scope)
				c.freeze(t, u, unit)
				c.end(t, u, unit, r)
				dead(t, c.name, all)
				gone(t, r.scope)
			})
		})
	}
}
