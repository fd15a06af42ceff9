// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// actEnv makes the inner process of a run below this one misbehave.
const actEnv = "BED_TEST_ACT"

func TestMain(m *testing.M) { Main(m, act) }

func act() (func(), error) {
	switch what := os.Getenv(actEnv); what {
	case "":
		return nil, nil
	case "fail":
		return nil, errors.New("as asked")
	default:
		if err := leak(); err != nil {
			return nil, err
		}
		if what == "die" {
			return nil, unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		if what == "hang" {
			fmt.Println("hanging")
			select {}
		}
		return nil, nil
	}
}

// leak leaves a process in a session and a group of its own.
func leak() error {
	dir := filepath.Join(point(), "nested")
	if err := os.MkdirAll(filepath.Join(dir, "empty"), 0o755); err != nil {
		return err
	}
	group, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(group)
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: group}
	return cmd.Start()
}

// below runs this binary as an outer process of its own, inside our sandbox.
func below(t *testing.T, what string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, stageEnv+"=") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, actEnv+"="+what)
	return cmd
}

func sandboxes(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(Root(t), sandboxPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// temps are the temporary directories of runs below ours.
func temps(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(os.TempDir(), sandboxPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestRootIsOurOwnGroup(t *testing.T) {
	own, err := ownDir()
	if err != nil || own != Root(t) {
		t.Errorf("own group is %q, %v; want %q", own, err, Root(t))
	}
	if path, err := ProcessPath(os.Getpid()); path != "/" {
		t.Errorf("own path is %q, %v; want /", path, err)
	}
}

func TestLeaksFailTheRunAndAreRemoved(t *testing.T) {
	for what, want := range map[string][]string{
		"leak": {"leaked by this test run", `"sleep 1000"`, "group nested\n", "group nested/empty\n"},
		"die":  {"leaked by this test run", `"sleep 1000"`, "killed"},
		"fail": {"as asked"},
	} {
		out, err := below(t, what).CombinedOutput()
		if err == nil {
			t.Errorf("%s: the run succeeded", what)
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: no %q in the output:\n%s", what, text, out)
			}
		}
		if left := append(sandboxes(t), temps(t)...); len(left) > 0 {
			t.Errorf("%s: left %v", what, left)
		}
	}
}

func TestSignalsReachTheInnerProcess(t *testing.T) {
	cmd := hang(t)
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the run succeeded")
	}
	if left := sandboxes(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// A killed outer process takes the tests along, and the next run removes the
// directory, but not that of a run that lives.
func TestNextRunRemovesWhatAKilledOneLeft(t *testing.T) {
	killed := hang(t)
	stale := sandboxes(t)
	hang(t)
	live := slices.DeleteFunc(sandboxes(t), func(dir string) bool { return dir == stale[0] })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // killed, as asked
	if err := WaitEmpty(stale[0], 10*time.Second); err != nil {
		t.Errorf("the tests outlived the outer process: %v", err)
	}
	if out, err := below(t, "").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if left := sandboxes(t); !slices.Equal(left, live) {
		t.Errorf("left %v, want %s", left, live)
	}
	if left := temps(t); len(left) != 1 {
		t.Errorf("left %v, want one", left)
	}
}

func TestKillLeavesAnEmptyGroup(t *testing.T) {
	dir := Group(t, "kill")
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if empty, err := Empty(dir); empty || err != nil {
		t.Errorf("Empty = %v, %v with a process in it", empty, err)
	}
	if err := Kill(dir, 10*time.Second); err != nil {
		t.Error(err)
	}
	if empty, err := Empty(dir); !empty || err != nil {
		t.Errorf("Empty = %v, %v after Kill", empty, err)
	}
	_ = cmd.Wait() // killed, as asked
}

func TestParseMount(t *testing.T) {
	line := `41 31 0:38 /a\040b /sys/fs/cgroup/uni\134fied rw,relatime shared:5 - cgroup2 cgroup2 rw`
	got, ok := parseMount(line)
	if want := (mount{"/a b", `/sys/fs/cgroup/uni\fied`, "cgroup2"}); !ok || got != want {
		t.Errorf("got %+v, %v; want %+v", got, ok, want)
	}
}

// hang starts a run that never ends by itself.
func hang(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := below(t, "hang")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM) // it may have ended
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "hanging\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	return cmd
}
