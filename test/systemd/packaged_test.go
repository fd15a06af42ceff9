// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// packagedUnits are those that a package has for each manager.
var packagedUnits = []string{"mcpscope-metrics.service", "mcpscope-sweep.service", "mcpscope-sweep.timer"}

// wantPackaged fails the test unless the manager of a user has the units of the package.
func wantPackaged(t *testing.T, u host.User) {
	t.Helper()
	kind := "user"
	if u == host.Root {
		kind = "system"
	}
	for _, unit := range packagedUnits {
		want := filepath.Join("/usr/lib/systemd", kind, unit)
		file, err := filepath.EvalSymlinks(control(t, u, "show", "--value", "--property=FragmentPath", unit)) // /lib can be a link
		if err != nil || file != want {
			t.Fatalf("the file of %s is %q, %v, want %q", unit, file, err, want)
		}
	}
}

// The units of a package do what they are for, in the sandbox that they have, with no file of an administrator: sweep
// ends an orphan and no server in use, metrics answers, and the timer can be enabled.
func TestPackagedUnits(t *testing.T) {
	if escape.Installed() == "" {
		t.Skip("there is no package here: test/installed/run installs one, and sets " + bed.InstalledEnv)
	}
	host.Both(t, func(t *testing.T, u host.User) {
		wantPackaged(t, u)
		for _, unit := range packagedUnits {
			if added := control(t, u, "show", "--value", "--property=DropInPaths", unit); added != "" {
				t.Errorf("%s has %s", unit, added)
			}
		}

		inUse := launch(t, host.Tester, "inuse", "plain", "--eof-grace", "1m")
		orphan := launch(t, host.Tester, "swept", "setsid")
		orphan.unguard()
		control(t, u, "start", "mcpscope-sweep.service") // and waits: it is a oneshot
		orphan.wantGone("the packaged sweep")
		inUse.lives()

		control(t, u, "start", "mcpscope-metrics.service")
		t.Cleanup(func() { control(t, u, "stop", "mcpscope-metrics.service") })
		awaitFigures(t, `name="inuse"`, "mcpscope_server_memory_bytes{")
		wantConfined(t, control(t, u, "show", "--value", "--property=MainPID", "mcpscope-metrics.service"))
		inUse.ends()

		control(t, u, "enable", "--now", "mcpscope-sweep.timer")
		if state := control(t, u, "is-active", "mcpscope-sweep.timer"); state != "active" {
			t.Errorf("the timer is %s", state)
		}
		control(t, u, "disable", "--now", "mcpscope-sweep.timer")
	})
}

// confined is the part of proc_pid_status(5) for a process that can get no new privilege, and whose system calls are
// filtered.
var confined = regexp.MustCompile(`\nNoNewPrivs:\t1\nSeccomp:\t2\n`)

// wantConfined fails the test unless a process is the installed tool, in its sandbox.
func wantConfined(t *testing.T, pid string) {
	t.Helper()
	program, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
	if err != nil || filepath.Base(program) != "mcpscopectl" {
		t.Errorf("the service runs %q, %v", program, err)
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil || !confined.Match(status) {
		t.Errorf("its sandbox is not in force: %v\n%s", err, status)
	}
}
