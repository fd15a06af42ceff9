// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const cgroupPoint = "/sys/fs/cgroup"

// enter makes this process, already born in its own cgroup, mount and cgroup
// namespace, see its own group as the root of the cgroup2 hierarchy.
func enter() error {
	if err := os.Setenv(stageEnv, stageReady); err != nil {
		return err
	}
	unix.CloseOnExec(outerPidfd)
	return remount()
}

// remount replaces everything below /sys/fs/cgroup.
func remount() error {
	if err := unmountBelow(cgroupPoint); err != nil {
		return err
	}
	point := cgroupPoint
	if os.Getenv(LayoutEnv) == "hybrid" {
		point = filepath.Join(cgroupPoint, "unified")
		if err := unix.Mount("tmpfs", cgroupPoint, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=755"); err != nil {
			return fmt.Errorf("mount a tmpfs at %s: %w", cgroupPoint, err)
		}
		if err := os.Mkdir(point, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("cgroup2", point, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount cgroup2 at %s: %w", point, err)
	}
	return nil
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
