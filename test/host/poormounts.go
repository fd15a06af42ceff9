// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// here is the root file system as a poor process has it, in its own namespace.
const here = tree("/")

// detach takes off whatever is mounted at a directory, with all below it. What a
// user namespace has inherited can't be taken off, only covered.
func detach(dir string) error {
	for {
		err := unix.Unmount(dir, unix.MNT_DETACH)
		if err == nil {
			continue
		}
		if !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		break // no mount point any more, or an inherited one
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC && st.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	return here.fresh("tmpfs", dir, 0, "mode=755")
}

// replaceRun hides the managers of the machine.
func (p poorPlan) replaceRun() error {
	switch p.Run {
	case keepRun:
		return nil
	case "":
		return here.fresh("tmpfs", "run", 0, "mode=755")
	}
	fd, err := clone(p.Run)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return here.attach(fd, "run")
}

// v1 are some of the directories that version 1 has in a tmpfs at /sys/fs/cgroup.
var v1 = []string{"blkio", "cpu", "cpuset", "freezer", "memory", "pids", "systemd"}

func (p poorPlan) replaceCgroupfs() error {
	if p.Cgroupfs == "" {
		return nil
	}
	if p.Cgroupfs == "subtree" {
		return p.showSubtree()
	}
	if err := detach(hierarchy); err != nil {
		return err
	}
	switch p.Cgroupfs {
	case "none":
		return nil
	case "own":
		return here.fresh("cgroup2", hierarchy, 0, "")
	case "read-only":
		return here.fresh("cgroup2", hierarchy, unix.MS_RDONLY, "")
	case "v1":
		return controllers()
	case "hybrid":
		return controllers("unified")
	}
	return fmt.Errorf("no such view of cgroupfs: %s", p.Cgroupfs)
}

// showSubtree takes the own group while there is a path to it.
func (p poorPlan) showSubtree() error {
	own, err := clone(p.Group)
	if err != nil {
		return err
	}
	defer unix.Close(own)
	if err := detach(hierarchy); err != nil {
		return err
	}
	return here.attach(own, hierarchy)
}

// controllers makes the tmpfs of version 1, with a cgroup2 mount at the names given.
// The directories are nothing but directories: a version 1 hierarchy can't be
// mounted without an effect on the whole machine.
func controllers(cgroup2 ...string) error {
	if err := here.fresh("tmpfs", hierarchy, 0, "mode=755"); err != nil {
		return err
	}
	for _, name := range v1 {
		if err := os.Mkdir(hierarchy+"/"+name, 0o755); err != nil {
			return err
		}
	}
	for _, name := range cgroup2 {
		if err := here.fresh("cgroup2", hierarchy+"/"+name, 0, ""); err != nil {
			return err
		}
	}
	return here.readOnly(hierarchy)
}

func (p poorPlan) replaceProc() error {
	switch p.Proc {
	case "":
		return nil
	case "none":
		return detach("/proc")
	case "own":
		return here.fresh("proc", "proc", 0, "")
	case "hidepid":
		return here.fresh("proc", "proc", 0, "hidepid=2")
	}
	return fmt.Errorf("no such view of /proc: %s", p.Proc)
}

// lockRoot makes every mount read-only but that of cgroupfs.
func (p poorPlan) lockRoot() error {
	if !p.ReadOnly {
		return nil
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr); err != nil {
		return os.NewSyscallError("mount_setattr (Linux 5.12)", err)
	}
	attr = unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	err := unix.MountSetattr(unix.AT_FDCWD, hierarchy, unix.AT_RECURSIVE, &attr)
	return os.NewSyscallError("mount_setattr", err)
}
