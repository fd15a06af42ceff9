// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadCgroupOfOddNames asks the kernel: what becomes of a name, alive, as a
// zombie, and once its directory is removed.
func TestReadCgroupOfOddNames(t *testing.T) {
	target, own := writableCgroup(t)
	for _, name := range []string{"proc-test", "proc-test (deleted)", `proc-test\012`, "proc-test\t\x01\xff", "0::", " (deleted)"} {
		t.Run(name, func(t *testing.T) {
			dir, path := filepath.Join(target, name), filepath.Join(own, name)
			child := sleeperIn(t, dir)
			pid := child.Process.Pid
			if got, deleted, err := ReadCgroup(pid); err != nil || got != path || deleted {
				t.Errorf("alive: %q, %v, %v, want %q", got, deleted, err, path)
			}
			zombify(t, child)
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			if got, deleted, err := ReadCgroup(pid); err != nil || got != path || !deleted {
				t.Errorf("removed: %q, %v, %v, want %q", got, deleted, err, path)
			}
			reap(child)
			if _, _, err := ReadCgroup(pid); !errors.Is(err, ErrGone) {
				t.Errorf("gone: %v", err)
			}
		})
	}
}

// TestNoNewlineInCgroupNames is what the line format of /proc/PID/cgroup and
// with it ParseCgroup rest on.
func TestNoNewlineInCgroupNames(t *testing.T) {
	target, _ := writableCgroup(t)
	dir := filepath.Join(target, "proc-test\n0::")
	if err := os.Mkdir(dir, 0o755); !errors.Is(err, unix.EINVAL) {
		_ = os.Remove(dir)
		t.Errorf("mkdir of a name with a newline: %v, want EINVAL", err)
	}
}

// writableCgroup is our own cgroup, as a directory and as a path of the
// hierarchy. It skips only where the kernel itself says that it is not ours.
func writableCgroup(t *testing.T) (dir, path string) {
	t.Helper()
	path, _, err := ReadCgroup(0)
	if errors.Is(err, ErrNoCgroup2) {
		t.Skip(err)
	}
	for _, m := range must[[]Mount](t)(ReadCgroup2Mounts()) {
		if m.Root == "/" && !m.ReadOnly {
			dir = filepath.Join(m.Target, path)
		}
	}
	if dir == "" {
		t.Skip("no cgroup2 mount of the whole hierarchy that is writable")
	}
	probe := filepath.Join(dir, "proc-test-probe")
	switch err := os.Mkdir(probe, 0o755); {
	case errors.Is(err, os.ErrPermission), errors.Is(err, unix.EROFS):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	if err := os.Remove(probe); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

func sleeperIn(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Runs after the child's own clean-up; by then the test has removed it,
	// unless it failed.
	t.Cleanup(func() { _ = os.Remove(dir) })
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}
	start(t, cmd)
	return cmd
}
