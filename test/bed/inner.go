// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const cgroupPoint = "/sys/fs/cgroup"

// outerPidfd is the descriptor by which the inner process knows the outer one.
const outerPidfd = 3

// enter makes this process, already born in its own cgroup, mount and cgroup
// namespace, see its own group as the root of the cgroup2 hierarchy.
func enter() error {
	if err := os.Setenv(stageEnv, stageReady); err != nil {
		return err
	}
	if err := raiseFiles(); err != nil {
		return err
	}
	point, err := remount()
	if err != nil {
		return err
	}
	unix.CloseOnExec(outerPidfd)
	go dieWithOuter(point)
	return nil
}

// remount replaces everything below /sys/fs/cgroup and returns the place of the
// new cgroup2 mount.
func remount() (string, error) {
	if err := unmountBelow(cgroupPoint); err != nil {
		return "", err
	}
	point := cgroupPoint
	if os.Getenv(LayoutEnv) == "hybrid" {
		point = filepath.Join(cgroupPoint, "unified")
		if err := unix.Mount("tmpfs", cgroupPoint, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
			return "", fmt.Errorf("mount a tmpfs at %s: %w", cgroupPoint, err)
		}
		if err := os.Mkdir(point, 0o755); err != nil {
			return "", err
		}
	}
	if err := unix.Mount("cgroup2", point, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return "", fmt.Errorf("mount cgroup2 at %s: %w", point, err)
	}
	return point, nil
}

// unmountBelow takes the newest mounts off first, since they hide the older.
func unmountBelow(dir string) error {
	all, err := mounts()
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		point := all[i].point
		if point != dir && !strings.HasPrefix(point, dir+"/") {
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
	return nil
}

// raiseFiles lifts the soft limit of descriptors for this process and what it
// starts: a test that watches 2,000 members holds 2,000 pidfds. It must be the
// syscall package's function, which also stops Go from giving children the old
// limit back.
func raiseFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("read RLIMIT_NOFILE: %w", err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("raise RLIMIT_NOFILE to %d: %w", limit.Max, err)
	}
	return nil
}

// dieWithOuter ends the sandbox when nobody is left to clean up behind it. The
// directories stay for the next run. PR_SET_PDEATHSIG would be shorter, but it
// follows the parent's thread, which Go may end at any time.
func dieWithOuter(point string) {
	poll := []unix.PollFd{{Fd: outerPidfd, Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, -1)
		if n == 1 && err == nil {
			break
		}
	}
	// With nsdelegate the root of a cgroup namespace can't be written (EPERM):
	// then at least no further test starts.
	_ = Write(filepath.Join(point, "cgroup.kill"), "1")
	os.Exit(1)
}
