// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// gateway is a service that starts one server and talks to it. It drains for a moment
// when it is asked to end: then the server must still answer.
func gateway(t *testing.T, h *host.Host, u host.User, name string, properties ...string) *host.Unit {
	t.Helper()
	script := `
mkfifo "$RUNTIME_DIRECTORY/in.$$" "$RUNTIME_DIRECTORY/out.$$"
` + strings.Join(run(u, name, "sh", "-c", "'trap \"\" TERM; setsid sleep 1000 & while read -r l; do echo \"$l\"; done; sleep 1000'"), " ") + ` <"$RUNTIME_DIRECTORY/in.$$" >"$RUNTIME_DIRECTORY/out.$$" &
exec 3>"$RUNTIME_DIRECTORY/in.$$" 4<"$RUNTIME_DIRECTORY/out.$$"
drain() { sleep "${DRAIN:-0}"; echo last >&3; read -r answer <&4; echo "$answer" >"$RUNTIME_DIRECTORY/drained"; exit 0; }
trap drain TERM
echo first >&3; read -r answer <&4; echo "$answer" >"$RUNTIME_DIRECTORY/up"
while :; do sleep 1000 & wait $!; done`
	properties = append([]string{"RuntimeDirectory=" + name, "RuntimeDirectoryPreserve=yes", "KillMode=mixed", "TimeoutStopSec=10s"}, properties...)
	return h.Start(t, host.Service{User: u, Properties: properties, Argv: []string{"sh", "-c", script}})
}

func runtimeFile(u host.User, name, file string) string {
	if u.UID == 0 {
		return "/run/" + name + "/" + file
	}
	return u.RuntimeDir() + "/" + name + "/" + file
}

// up waits until the gateway's server has answered and its manager has the scope, which it returns.
func up(t *testing.T, u host.User, name string, except string) string {
	t.Helper()
	awaitFile(t, runtimeFile(u, name, "up"))
	for _, s := range u.Scopes(name) {
		if s == except {
			continue
		}
		if err := escape.AwaitScope(s, patience); err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Fatalf("no scope of %s but %q", name, except)
	return ""
}

func TestScopeEndsAfterItsClientsUnit(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit := gateway(t, h, u, "drains", "Environment=DRAIN=2") // longer than the server's own grace
		scope := up(t, u, "drains", "")
		all := processes(t, scope+"/payload")
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		dead(t, "unit stopped", all)
		gone(t, scope)
		if text, err := os.ReadFile(runtimeFile(u, "drains", "drained")); string(text) != "last\n" {
			t.Errorf("the server's answer during the drain: %q (%v)", text, err)
		}
	})
}

func TestScopeEndsWhenItsClientsUnitCrashes(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit := gateway(t, h, u, "crashes")
		scope := up(t, u, "crashes", "")
		all := append(processes(t, scope+"/payload"), processes(t, scope+"/supervisor")...)
		if err := unit.Crash(); err != nil {
			t.Fatal(err)
		}
		dead(t, "unit crashed", all)
		gone(t, scope)
	})
}

func TestOldServersGoAndNewOnesLive(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit := gateway(t, h, u, "restarts", "Restart=always")
		old := up(t, u, "restarts", "")
		all := processes(t, old+"/payload")
		if err := os.Remove(runtimeFile(u, "restarts", "up")); err != nil {
			t.Fatal(err)
		}
		if err := unit.Crash(); err != nil {
			t.Fatal(err)
		}
		if err := unit.AwaitRestart(); err != nil {
			t.Fatal(err)
		}
		dead(t, "unit crashed", all)
		gone(t, old)
		fresh := up(t, u, "restarts", old)
		for _, p := range processes(t, fresh+"/payload") {
			if !p.alive() {
				t.Errorf("%d of the new server is dead", p.PID)
			}
		}
		all = processes(t, fresh+"/payload")
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		dead(t, "unit stopped", all)
		gone(t, fresh)
	})
}

// With both guards killed, systemd is the third: the scope is bound to the unit.
func TestUnitStopEndsAnOrphan(t *testing.T) {
	h := host.Current(t)
	host.BothAtOnce(t, func(t *testing.T, u host.User) {
		unit := gateway(t, h, u, "orphaned")
		scope := up(t, u, "orphaned", "")
		all := processes(t, scope+"/payload")
		launcher := launcherOf(t, scope)
		killBoth(t, launcher, processes(t, scope+"/supervisor"))
		for _, p := range all {
			if !p.alive() {
				t.Errorf("%d is dead before the unit is stopped", p.PID)
			}
		}
		if err := unit.Stop(); err != nil {
			t.Fatal(err)
		}
		dead(t, "unit stopped", all)
		gone(t, scope)
	})
}

// launcherOf reads the launcher's pid from the payload's attributes.
func launcherOf(t *testing.T, scope string) int {
	t.Helper()
	buf := make([]byte, 64)
	n, err := unix.Getxattr(scope+"/payload", "user.mcpscope.launcher", buf)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(buf[:n]))[0])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
