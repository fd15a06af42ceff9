// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestManagersRun(t *testing.T) {
	if state, err := exec.Command("systemctl", "is-system-running").Output(); err != nil {
		failed, _ := exec.Command("systemctl", "--failed", "--no-pager").Output() // for the message
		t.Errorf("the system manager is %s\n%s", state, failed)
	}
	if state := output(t, Current(t).Manage(Tester, "systemctl", "is-system-running")); state != "running" {
		t.Errorf("the user manager is %s", state)
	}
}

func TestSocketsOfManagersAndBuses(t *testing.T) {
	for _, path := range []string{
		"/run/systemd/private", "/run/dbus/system_bus_socket",
		"/run/user/1000/systemd/private", "/run/user/1000/bus",
	} {
		if st, err := os.Stat(path); err != nil || st.Mode().Type() != fs.ModeSocket {
			t.Errorf("%s: %v, %v", path, st, err)
		}
	}
	gone := func() bool { // the sessions of other tests have ended, and what logind does then takes its time
		_, err := os.Stat("/run/user/1001")
		return err != nil
	}
	if err := awaitDir("/run/user", patience, gone); err != nil {
		t.Errorf("nolinger has a runtime directory without a session: %v", err)
	}
	for _, u := range []User{Root, Tester} {
		out := output(t, Current(t).Manage(u, "busctl", "get-property", "org.freedesktop.systemd1",
			"/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "Version"))
		if !strings.HasPrefix(out, `s "2`) {
			t.Errorf("on the bus of %s the version is %s", u.Name, out)
		}
	}
}

func TestScopes(t *testing.T) {
	for u, want := range map[User]string{
		Root:   "0::/system.slice/a.scope",
		Tester: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.scope",
	} {
		cmd := Current(t).Manage(u, "systemd-run", "--scope", "--quiet", "--unit=a", "cat", "/proc/self/cgroup")
		if got := output(t, cmd); !strings.HasSuffix(got, want) {
			t.Errorf("the scope of %s is %s", u.Name, got)
		}
	}
}

// What runs goes on, and the managers still answer on their old sockets.
func TestManagersExecuteThemselvesAgain(t *testing.T) {
	h := Current(t)
	for _, u := range []User{Root, Tester} {
		unit := h.Start(t, Service{User: u, Argv: []string{"sleep", "1000"}})
		before, err := unit.MainPID()
		if err != nil {
			t.Fatal(err)
		}
		output(t, h.Manage(u, "systemctl", "daemon-reexec"))
		if after, err := unit.MainPID(); after != before || err != nil {
			t.Errorf("main pid %d is %d, %v after the re-execution for %s", before, after, err, u.Name)
		}
	}
}

// The machine's own directories are out of reach, and what is bound of them is not
// swept by systemd-tmpfiles.
func TestOwnRootFileSystem(t *testing.T) {
	if pid := output(t, exec.Command("cat", "/proc/1/comm")); pid != "systemd" {
		t.Errorf("PID 1 is %s", pid)
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/dev", "/var/log", "/sys/fs/cgroup", "/proc"} {
		if err := exec.Command("mountpoint", "-q", dir).Run(); err != nil {
			t.Errorf("%s is the machine's: %v", dir, err)
		}
	}
	if err := os.WriteFile("/proc/sys/kernel/core_pattern", nil, 0); err == nil {
		t.Error("sysctls can be written")
	}
	if err := os.WriteFile("kinds.go.new", nil, 0o644); err == nil {
		t.Error("the source tree can be written")
	}
	if _, err := os.Stat("kinds.go"); err != nil {
		t.Errorf("the working directory is not the package's: %v", err)
	}
}

// Where the binary is must not decide what of the machine the host can write.
func TestOnlyTheDirectoryOfGoTestIsWritable(t *testing.T) {
	for dir, want := range map[string]bool{
		"/tmp/go-build123/b001": true, "/var/tmp/x/go-build9/b123": true,
		"/tmp": false, "/": false, "/usr/bin": false, "/tmp/go-build123": false, "/src/bin": false,
	} {
		if got := madeByGoTest(dir); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/tmp", &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Errorf("/tmp is no tmpfs of the host's own: %x, %v", st.Type, err)
	}
}

func TestWhatWasBuiltIsThereForEveryUser(t *testing.T) {
	h := Current(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for user, uid := range map[User]string{Root: "0", Tester: "1000", NoLinger: "1001"} {
		if got := output(t, h.Command(user, Shared+"/probe", "uid")); got != uid {
			t.Errorf("%s is uid %s", user.Name, got)
		}
		cmd := h.Command(user, self, "-test.list=^TestMain$")
		cmd.Env = append(cmd.Environ(), insideEnv+"=again", "GORACE=atexit_sleep_ms=0")
		output(t, cmd)
	}
}
