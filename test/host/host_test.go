// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m, Options{Users: true}) }

// The machine does not see the host's processes.
func TestBootedHost(t *testing.T) {
	h := Current(t)
	Both(t, func(t *testing.T, u User) {
		if state := Must(t, h.Manage(u, "systemctl", "is-system-running")); state != "running\n" {
			t.Errorf("the manager is %s", state)
		}
		unit := h.Start(t, Service{User: u, Argv: []string{"sleep", "infinity"}})
		if err := unit.Crash(); err != nil {
			t.Error(err)
		}
		if result, err := unit.Await(patience); result != "signal" || err != nil {
			t.Errorf("a unit that crashed has the result %s, %v", result, err)
		}
	})
	if out := Must(t, h.Login(t, NoLinger).Command("systemctl", "--user", "is-system-running")); out != "running\n" {
		t.Errorf("the manager of a user in a session is %s", out)
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev", "/var/log", "/sys/fs/cgroup", "/proc"} {
		if err := exec.Command("mountpoint", "-q", dir).Run(); err != nil {
			t.Errorf("%s is the machine's: %v", dir, err)
		}
	}
	for _, file := range []string{"/proc/sys/kernel/core_pattern", "kinds.go.new"} {
		if err := os.WriteFile(file, nil, 0o644); err == nil {
			t.Errorf("%s can be written", file)
		}
	}
	for dir, want := range map[string]bool{"/tmp/go-build123/b001": true, "/tmp": false, "/tmp/go-build123": false, "/usr/bin": false} {
		if got := madeByGoTest(dir); got != want {
			t.Errorf("the host may write to %s of the machine: %v", dir, got)
		}
	}
}

// Left-overs of a run's tests are found, so that the run fails.
func TestLeftovers(t *testing.T) {
	before, err := groups()
	if err != nil {
		t.Fatal(err)
	}
	h := Current(t)
	for _, u := range []User{Root, Tester} {
		Must(t, h.Manage(u, "systemd-run", "--quiet", "--service-type=exec", "--unit=leaked", "sleep", "infinity"))
		t.Cleanup(func() { StopUnits(t, u, "leaked.service") })
	}
	left, err := leftovers(before, 0)
	text := strings.Join(left, "\n")
	if err != nil || len(left) != 2 || strings.Count(text, `sleep infinity"`) != 2 || strings.Count(text, "/leaked.service") != 2 {
		t.Errorf("left are %q, %v", left, err)
	}
}

// Each kind of host lacks what it is named after. A "no" is a command that must fail.
func TestKinds(t *testing.T) {
	const group, socket = "/sys/fs/cgroup", "/run/user/65533/bus"
	own := `d=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); `
	for _, c := range []struct {
		kind    Kind
		yes, no string
	}{
		{ReadOnlyCgroupfs, "test -e " + group + "/cgroup.procs", "mkdir " + group + "/d"},
		{NoCgroupfs, "test -d " + group, "test -e " + group + "/cgroup.procs"},
		{OwnCgroupfs, "mkdir " + group + "/d && rmdir " + group + "/d", ""},
		{HostCgroupfs, own + "test -e $d/cgroup.procs", own + "grep -qx $$ $d/cgroup.procs"},
		{SubtreeCgroupfs, "grep -qx $$ " + group + "/cgroup.procs", own + "test -e $d"},
		{CgroupV1, "test -d " + group + "/pids", "test -e " + group + "/unified"},
		{Hybrid, "test -e " + group + "/unified/cgroup.procs", "test -e " + group + "/cgroup.procs"},
		{FakeRoot, "test $(id -u) = 0", own + "mkdir $d/d"},
		{Unprivileged, "test $(id -u) = 65533", own + "mkdir $d/d"},
		{Delegated, "test $(id -u) = 65533; " + own + "mkdir $d/d && rmdir $d/d", ""},
		{DeadBus, "test -S " + socket + " -a -O " + socket, ""},
		{ForeignBus, "test -S " + socket, "test -O " + socket},
		{HangingBus, "test -S " + socket + " -a -O " + socket, ""},
		{HangingManager, "test -S /run/systemd/private", ""},
		{Hidepid, "test -e /proc/self", "test -e /proc/1"},
		{NoProc, "test -d /proc", "test -e /proc/self"},
		{PID1, "test $$ = 1", ""},
		{NoReaper, "grep -q '^State:.Z' /proc/[0-9]*/status", ""},
		{NoNewPrivs, "grep -q '^NoNewPrivs:.1' /proc/self/status", ""},
		{ReadOnlyRoot, own + "mkdir $d/d && rmdir $d/d", "touch /tmp/d || touch /run/d || test -n \"$HOME\""},
		{Files(8), "test $(ulimit -n) = 8", ""},
		{Processes(20), "test $(ulimit -u) = 20", ""},
		{Clone3Denied, "grep -q '^Seccomp:.2' /proc/self/status", ""},
		{Hidepid.As(Tester).WithManagers(), "test -S /run/user/1000/bus", "test -e /proc/1"},
	} {
		t.Run(c.kind.Name, func(t *testing.T) {
			for script, want := range map[string]bool{c.yes: true, c.no: false} {
				if script == "" {
					continue
				}
				out, err := Poor(t, c.kind, "bash", "-c", script).CombinedOutput()
				if (err == nil) != want {
					t.Errorf("%s: %v: %s", script, err, out)
				}
			}
		})
	}
}
