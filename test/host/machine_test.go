// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
)

func TestHostOfOneTest(t *testing.T) {
	h := Systemd(t, Options{KillUserProcesses: true})
	for _, c := range []struct {
		user User
		argv []string
		want string
	}{
		{Root, []string{"systemctl", "is-system-running"}, "running"},
		{Root, []string{"id", "-u"}, "0"},
		{Tester, []string{"id", "-u"}, "1000"},
		{Tester, []string{"sh", "-c", "echo $HOME $XDG_RUNTIME_DIR"}, "/home/tester"},
		{Root, []string{"sh", "-c", "ls /run/user"}, ""},
		{Root, []string{"busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1",
			"org.freedesktop.login1.Manager", "KillUserProcesses"}, "b true"},
		{NoLinger.InSession(), []string{"sh", "-c", "echo $XDG_RUNTIME_DIR"}, "/run/user/1001"},
	} {
		if got := output(t, h.Command(c.user, c.argv...)); got != c.want {
			t.Errorf("%s: %v: %q, want %q", c.user.Name, c.argv, got, c.want)
		}
	}
	if got := output(t, h.Command(Root, "cat", "/proc/self/cgroup")); !strings.Contains(got, "0::/system.slice/run-") {
		t.Errorf("the command is in %s", got)
	}
	within(t, time.Second, "stop", h.Stop)
	if _, err := os.Stat(h.group); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the host's group: %v", err)
	}
}

func TestCommandEndsAsItWould(t *testing.T) {
	h := Systemd(t, Options{})
	cmd := h.Command(Root, "sh", "-c", "exit 7")
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("exit 7 shows as %v", err)
	}
	if err := h.Command(Root, "sh", "-c", "kill -9 $$").Run(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("its death shows as %v", err)
	}
	cmd = h.Command(Root, "sh", "-c", "trap 'exit 8' TERM; echo; while :; do sleep 0.01; done")
	read := startAndRead(t, cmd)
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	read() // to the end
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 8 {
		t.Errorf("after SIGTERM it shows %v", err)
	}
	killed := h.Command(Root, "sh", "-c", "echo; exec sleep 1000")
	startAndRead(t, killed)
	_ = killed.Process.Kill() // it lives
	_ = killed.Wait()         // killed
	scopes, err := filepath.Glob(h.group + "/system.slice/run-*.scope")
	if err != nil {
		t.Fatal(err)
	}
	for _, scope := range scopes {
		if err := bed.WaitEmpty(scope, patience); err != nil {
			t.Errorf("the command outlives its Cmd: %v", err)
		}
	}
}

// startAndRead returns after the first line; what it returns reads the next.
func startAndRead(t *testing.T, cmd *exec.Cmd) func() string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	read := func() string {
		line, _ := r.ReadString('\n') // at the end it is empty
		return line
	}
	read()
	return read
}

// Things that runs below this one do.

func TestHang(t *testing.T) {
	if os.Getenv(actEnv) == "hang" {
		fmt.Println("hanging")
		select {}
	}
}

func TestLeak(t *testing.T) {
	if os.Getenv(actEnv) != "leak" {
		return
	}
	output(t, exec.Command("sh", "-c", "exec >/dev/null 2>&1; setsid tail -f /dev/null &"))
	for _, u := range []User{Root, Tester} {
		output(t, Current(t).Manage(u, "systemd-run", "--unit=leaked", "sleep", "1000"))
	}
}

func TestRunsBelow(t *testing.T) {
	for act, want := range map[string][]string{
		"leak": {"left in the booted host", "(tail) in system.slice/run-",
			"(sleep) in system.slice/leaked.service", "user@1000.service/app.slice/leaked.service"},
		"fail": {"boot: as asked"},
	} {
		c := rerun(t, actEnv+"="+act, "-test.run=^TestLeak$")
		out, err := c.CombinedOutput()
		if err == nil {
			t.Errorf("%s: the run succeeded", act)
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: no %q in the output:\n%s", act, text, out)
			}
		}
		if left := sandboxes(t, c.Group); len(left) > 0 {
			t.Errorf("%s: left %v", act, left)
		}
	}
}

func sandboxes(t *testing.T, group string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(group, "mcpscope-test.*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Everything dies with the outermost process, and the next run removes the
// directories.
func TestKilledRun(t *testing.T) {
	killed := rerun(t, actEnv+"=hang", "-test.run=^TestHang$")
	startAndRead(t, killed.Cmd)
	_ = killed.Process.Kill() // it lives
	within(t, 2*time.Second, "the end of a killed run", func() error {
		return bed.WaitEmpty(killed.Group, patience)
	})
	_ = killed.Wait() // killed
	next := rerun(t, actEnv+"=none", "-test.run=^TestHang$")
	next.SysProcAttr.CgroupFD = killed.SysProcAttr.CgroupFD
	if out, err := next.CombinedOutput(); err != nil {
		t.Errorf("the next run: %v\n%s", err, out)
	}
	if left := sandboxes(t, killed.Group); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// On a machine that runs systemd the run is in a scope of its own, which goes with
// it. Our host is such a machine.
func TestRunOnAHostWithSystemd(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestHang$", "-test.v")
	cmd.Env = ownRun(os.Environ(), actEnv+"=none")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS: TestHang") {
		t.Errorf("%v\n%s", err, out)
	}
	found, err := filepath.Glob(hierarchy + "/system.slice/mcpscope-test-*.scope")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range found {
		if err := bed.WaitEmpty(dir, patience); err != nil {
			t.Error(err)
		}
	}
}
