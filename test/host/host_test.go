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
