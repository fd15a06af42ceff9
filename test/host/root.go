// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharedFD is the descriptor by which PID 1 gets the file system for Shared.
const sharedFD = 3

// becomeSystemd builds the root file system and executes systemd in it. It is
// PID 1 of new namespaces, all of whose mounts are private.
func becomeSystemd(p bootPlan) error {
	if os.Getpid() != 1 {
		return errors.New("not PID 1: systemd would boot on this machine itself")
	}
	unix.CloseOnExec(sharedFD)
	unix.Umask(0o022)
	if err := os.Chdir("/"); err != nil { // no mount is busy by us
		return err
	}
	root, err := overlay()
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		root.fileSystems,
		root.devices,
		func() error { return root.attach(sharedFD, Shared) },
		func() error { return root.attachAll(p) },
		func() error { return root.configure(p) },
		root.pivot,
		dropCapabilities,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return fmt.Errorf("execute systemd (Debian's packages: systemd, dbus, dbus-user-session, libpam-systemd): %w", unix.Exec("/lib/systemd/systemd",
		[]string{"systemd", "--unit=" + target, "--log-target=journal", "--show-status=no"},
		[]string{"PATH=" + os.Getenv("PATH"), "container=mcpscope-test", "NOTIFY_SOCKET=" + filepath.Join(Shared, readySocket)}))
}

// overlay mounts a writable view of the machine's root file system. Its upper
// layer is a tmpfs on /sys: a directory that is everywhere, needed no more, and
// hidden for this process alone.
func overlay() (tree, error) {
	const scratch = tree("/sys")
	if err := scratch.fresh("tmpfs", "", 0, "mode=755"); err != nil {
		return "", err
	}
	for _, dir := range []string{"upper", "work"} {
		if err := os.Mkdir(scratch.path(dir), 0o755); err != nil {
			return "", err
		}
	}
	options := fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", scratch.path("upper"), scratch.path("work"))
	return tree(scratch.path("root")), scratch.fresh("overlay", "root", 0, options)
}

// fileSystems mounts what systemd expects, and hides every place of the machine
// that it would write to or clean up.
func (t tree) fileSystems() error {
	for _, m := range []struct{ fstype, name, options string }{
		{"tmpfs", "run", "mode=755"},
		{"tmpfs", "tmp", "mode=1777"},
		{"tmpfs", "var/tmp", "mode=1777"},
		{"tmpfs", "home", "mode=755"}, // an account and a home directory are found there by themselves
		{"tmpfs", "var/log", "mode=755"},
		{"tmpfs", "var/lib/systemd", "mode=755"},
		{"tmpfs", "dev", "mode=755"}, // devtmpfs is one for all mount namespaces
		{"tmpfs", "dev/shm", "mode=1777"},
		{"devpts", "dev/pts", "newinstance,ptmxmode=666,mode=620,gid=5"},
		{"proc", "proc", ""},
		{"sysfs", "sys", ""},
		{"cgroup2", "sys/fs/cgroup", "nsdelegate"},
	} {
		if err := t.fresh(m.fstype, m.name, 0, m.options); err != nil {
			return err
		}
	}
	// PID 1 would do so itself: with the kernel's default of 10 a busy journal loses what none
	// waits to write. It is the network namespace's, and so the host's own.
	if err := os.WriteFile(t.path("proc/sys/net/unix/max_dgram_qlen"), []byte("512"), 0); err != nil {
		return err
	}
	// The settings here are the machine's. The cgroup2 mount stays writable.
	return errors.Join(t.readOnly("sys"), t.lock("proc/sys"), t.lock("proc/sysrq-trigger"))
}

func (t tree) devices() error {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := t.device(name); err != nil {
			return err
		}
	}
	for target, name := range map[string]string{
		"pts/ptmx": "dev/ptmx", "/proc/self/fd": "dev/fd",
		"fd/0": "dev/stdin", "fd/1": "dev/stdout", "fd/2": "dev/stderr",
	} {
		if err := t.link(target, name); err != nil {
			return err
		}
	}
	return nil
}

// attachAll gives the host the files and directories of the machine that it has as well.
func (t tree) attachAll(p bootPlan) error {
	for i, path := range append(p.ReadOnly, p.Writable...) {
		mount, err := clone(path)
		if err != nil {
			return err
		}
		if err := t.attach(mount, path); err != nil {
			return err
		}
		if i < len(p.ReadOnly) {
			if err := t.readOnly(path); err != nil {
				return err
			}
		}
		if err := t.openAbove(path); err != nil {
			return err
		}
	}
	return nil
}

// openAbove lets all users enter the directories above a path: the checkout may be in a home of mode 700.
func (t tree) openAbove(path string) error {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(t.path(dir))
		if err != nil {
			return err
		}
		const entered = 0o011
		if info.Mode()&entered == entered { // it may be on a mount that is read-only
			continue
		}
		if err := os.Chmod(t.path(dir), info.Mode()|entered); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the tree our root and unmounts the machine's.
func (t tree) pivot() error {
	if err := os.Chdir(string(t)); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the machine's root: %w", err)
	}
	return os.Chdir("/")
}

// dropCapabilities takes away, for all that will run in the host, what reaches
// the machine itself.
func dropCapabilities() error {
	for _, c := range []uintptr{unix.CAP_SYS_TIME, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYSLOG} {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}
