// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
)

// ask runs a probe on a poor host.
func ask(t *testing.T, kind Kind, question string) (answer string, c *Command) {
	t.Helper()
	c = Poor(t, kind, Shared+"/probe", question)
	return output(t, c.Cmd), c
}

// properties are what each kind has to be like: questions and answers.
var properties = map[string]map[string]string{
	ReadOnlyCgroupfs.Name:  {"mkdir /sys/fs/cgroup": "EROFS", "group": "root=true in=true"},
	NoCgroupfs.Name:        {"fstype /sys/fs/cgroup": "sysfs"},
	OwnCgroupfs.Name:       {"mkdir /sys/fs/cgroup": "ok", "group": "root=true in=true"},
	HostCgroupfs.Name:      {"fstype /sys/fs/cgroup": "cgroup2", "group": "root=true in=false"},
	SubtreeCgroupfs.Name:   {"mkdir /sys/fs/cgroup": "ok", "group": "ENOENT", "stat /sys/fs/cgroup/cgroup.procs": "ok"},
	CgroupV1.Name:          {"fstype /sys/fs/cgroup": "tmpfs", "fstype /sys/fs/cgroup/unified": "ENOENT", "mkdir /sys/fs/cgroup/pids": "EROFS"},
	Hybrid.Name:            {"fstype /sys/fs/cgroup": "tmpfs", "mkdir /sys/fs/cgroup/unified": "ok", "stat /sys/fs/cgroup/pids": "ok"},
	FakeRoot.Name:          {"uid": "0", "mkdir own": "EACCES", "owner /": "65534", "group": "root=false in=true"},
	Unprivileged.Name:      {"uid": "65533", "mkdir own": "EACCES", "stat /run/user/65533": "ENOENT"},
	Delegated.Name:         {"uid": "65533", "mkdir own": "ok", "mkdir /sys/fs/cgroup": "EACCES"},
	DeadBus.Name:           {"connect /run/user/65533/bus": "ECONNREFUSED", "connect /run/user/65533/systemd/private": "ECONNREFUSED", "owner /run/user/65533": "65533"},
	ForeignBus.Name:        {"connect /run/user/65533/bus": "hangs", "owner /run/user/65533": "65534", "uid": "65533"},
	HangingBus.Name:        {"connect /run/user/65533/bus": "hangs", "connect /run/user/65533/systemd/private": "hangs", "owner /run/user/65533": "65533"},
	HangingManager.Name:    {"connect /run/systemd/private": "hangs", "connect /run/dbus/system_bus_socket": "hangs", "uid": "0"},
	Hidepid.Name:           {"stat /proc/1": "ENOENT", "stat /proc/self": "ok", "uid": "65533"},
	NoProc.Name:            {"stat /proc/self": "ENOENT"},
	PID1.Name:              {"pid": "1"},
	NoReaper.Name:          {"zombies": "1 2"},
	NoNewPrivs.Name:        {"no_new_privs": "1 ok", "uid": "0"},
	ReadOnlyRoot.Name:      {"mkdir /": "EROFS", "mkdir /tmp": "EROFS", "mkdir /run": "EROFS", "mkdir own": "ok", "env HOME": `"" false`},
	Files(8).Name:          {"files": "true EMFILE"},
	Processes(20).Name:     {"processes": "EAGAIN"},
	NoClone3.Name:          {"call clone3": "ENOSYS", "call pidfd_open": "EINVAL"},
	Clone3Denied.Name:      {"call clone3": "EPERM", "uid": "0"},
	NoPidfdOpen.Name:       {"call pidfd_open": "ENOSYS", "call clone3": "EINVAL"},
	PidfdOpenDenied.Name:   {"call pidfd_open": "EPERM"},
	NoPidfdSignal.Name:     {"call pidfd_send_signal": "ENOSYS", "call pidfd_open": "EINVAL"},
	PidfdSignalDenied.Name: {"call pidfd_send_signal": "EPERM"},
	NoCloseRange.Name:      {"call close_range": "ENOSYS", "call clone3": "EINVAL"},
	CloseRangeDenied.Name:  {"call close_range": "EPERM"},
}

func TestKindsAreWhatTheySay(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			if len(properties[kind.Name]) == 0 {
				t.Error("nothing is asked about it")
			}
			for question, want := range properties[kind.Name] {
				if got, _ := ask(t, kind, question); got != want {
					t.Errorf("%s: %s, want %s", question, got, want)
				}
			}
			if got, _ := ask(t, kind, "stat /run/systemd/private"); got != "ENOENT" && kind.run == runEmpty {
				t.Errorf("a manager is in reach: %s", got)
			}
		})
	}
}

func TestUsualAnswersOfTheProbe(t *testing.T) {
	for question, want := range map[string]string{
		"call clone3": "EINVAL", "call pidfd_open": "EINVAL", "call pidfd_send_signal": "EBADF", "call close_range": "EINVAL",
		"no_new_privs": "0 ok", "processes": "ok", "mkdir /": "ok", "uid": "0",
	} {
		if got, _ := ask(t, Kind{Name: "as it is"}, question); got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

func TestConnectionsAreCounted(t *testing.T) {
	for _, kind := range []Kind{ForeignBus, HangingBus, DeadBus} {
		want := 1
		if kind.Name == DeadBus.Name {
			want = 0
		}
		if _, c := ask(t, kind, "connect /run/user/65533/bus"); c.Connections() != want {
			t.Errorf("%s: %d connections, want %d", kind.Name, c.Connections(), want)
		}
	}
}

// Output, exit status, signals and group are those of the command itself.
func TestPoorCommand(t *testing.T) {
	for _, kind := range []Kind{Unprivileged, NoReaper, FakeRoot} {
		c := Poor(t, kind, "sh", "-c", "sleep 1000 & exit 7")
		if err := c.Run(); c.ProcessState == nil || c.ProcessState.ExitCode() != 7 {
			t.Errorf("%s: exit 7 shows as %v", kind.Name, err)
		}
		if kind.Name == NoReaper.Name {
			continue // with PID 1 all is gone
		}
		if empty, err := bed.Empty(c.Group); empty || err != nil {
			t.Errorf("%s: what it left is not in the group (%v)", kind.Name, err)
		}
	}
}

func TestKindsAdd(t *testing.T) {
	for _, c := range []struct {
		kind           Kind
		question, want string
	}{
		{Unprivileged.And(ReadOnlyCgroupfs), "uid", "65533"},
		{Unprivileged.And(ReadOnlyCgroupfs), "mkdir /sys/fs/cgroup", "EROFS"},
		{ReadOnlyCgroupfs.And(NoPidfdOpen).And(DeadBus), "call pidfd_open", "ENOSYS"},
		{ReadOnlyCgroupfs.And(NoPidfdOpen).And(DeadBus), "connect /run/user/65533/bus", "ECONNREFUSED"},
		{FakeRoot.And(ReadOnlyCgroupfs), "mkdir /sys/fs/cgroup", "EROFS"},
		{FakeRoot.And(OwnCgroupfs), "mkdir /sys/fs/cgroup", "EACCES"},
		{FakeRoot.And(OwnCgroupfs), "group", "root=true in=true"},
		{PID1.And(ReadOnlyCgroupfs), "pid", "1"},
		{Hybrid.And(Unprivileged), "mkdir /sys/fs/cgroup/unified", "EACCES"},
		{Unprivileged.And(Files(16)).And(NoNewPrivs), "no_new_privs", "1 ok"},
	} {
		if got, _ := ask(t, c.kind, c.question); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.kind.Name, c.question, got, c.want)
		}
	}
}

func TestPoorHostsWithManagers(t *testing.T) {
	for _, kind := range []Kind{Hidepid, NoNewPrivs, NoClone3, ReadOnlyCgroupfs} {
		c := Poor(t, kind.As(Tester).WithManagers(), "systemctl", "--user", "is-system-running")
		c.Env = Tester.ManagerEnviron()
		if out := output(t, c.Cmd); out != "running" {
			t.Errorf("%s: the user manager is %s", kind.Name, out)
		}
	}
}

// The kinds are the same in the sandbox of package bed alone.
func TestKindsInTheSandbox(t *testing.T) {
	cmd := rerun(t, bedEnv+"=1", "-test.run=^(TestKindsAreWhatTheySay|TestKindsAdd|TestPoorCommand)$")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "no tests to run") {
		t.Errorf("%v\n%s", err, out)
	}
}

// rerun executes this binary as a run of its own, not as a part of ours, in a group
// of its own and without systemd.
func rerun(t *testing.T, env string, args ...string) *Command {
	t.Helper()
	c := Poor(t, OwnCgroupfs, append([]string{os.Args[0]}, args...)...)
	c.Env = ownRun(c.Env, env)
	return c
}

// ownRun is the environment of such a run.
func ownRun(environ []string, env string) []string {
	var kept []string
	for _, v := range environ {
		if !strings.HasPrefix(v, "BED_") && !strings.HasPrefix(v, "TESTHOST_") {
			kept = append(kept, v)
		}
	}
	return append(kept, env, "GORACE=atexit_sleep_ms=0")
}
