// SPDX-License-Identifier: Apache-2.0

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// A tree is the root file system of a host while it is built.
type tree string

func (t tree) path(name string) string { return filepath.Join(string(t), name) }

// fresh mounts a new file system on a directory that is made if need be.
func (t tree) fresh(fstype, name string, flags uintptr, options string) error {
	if err := os.MkdirAll(t.path(name), 0o755); err != nil {
		return err
	}
	if err := unix.Mount(fstype, t.path(name), fstype, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", fstype, name, err)
	}
	return nil
}

// attach puts a detached mount on a directory, or on a file if it is one's.
func (t tree) attach(mount int, name string) error {
	if err := t.mountPoint(mount, name); err != nil {
		return err
	}
	err := unix.MoveMount(mount, "", unix.AT_FDCWD, t.path(name), unix.MOVE_MOUNT_F_EMPTY_PATH)
	if err != nil {
		return fmt.Errorf("attach %s: %w", name, err)
	}
	return nil
}

// mountPoint makes what the mount can be put on. Those above can be entered by all.
func (t tree) mountPoint(mount int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(mount, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(t.path(name), 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(t.path(name)), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(t.path(name), os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func (t tree) readOnly(name string) error {
	if err := unix.Mount("", t.path(name), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", name, err)
	}
	return nil
}

// lock makes a part of another file system read-only, where the kernel has it.
func (t tree) lock(name string) error {
	if _, err := os.Stat(t.path(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unix.Mount(t.path(name), t.path(name), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", name, err)
	}
	return t.readOnly(name)
}

func (t tree) write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(t.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(t.path(name), []byte(text), 0o644)
}

// link makes a symbolic link in place of whatever is there.
func (t tree) link(target, name string) error {
	if err := os.MkdirAll(filepath.Dir(t.path(name)), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(t.path(name)); err != nil {
		return err
	}
	return os.Symlink(target, t.path(name))
}

// edit changes a file that is there already and keeps its mode.
func (t tree) edit(name string, change func(string) string) error {
	text, err := os.ReadFile(t.path(name))
	if err != nil {
		return err
	}
	return os.WriteFile(t.path(name), []byte(change(string(text))), 0)
}

// device copies a device node of the machine; some are not everywhere.
func (t tree) device(name string) error {
	var st unix.Stat_t
	err := unix.Stat("/dev/"+name, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	path := t.path("dev/" + name)
	if err := unix.Mknod(path, st.Mode, int(st.Rdev)); err != nil {
		return fmt.Errorf("make /dev/%s: %w", name, err)
	}
	return os.Chmod(path, 0o666) // as devtmpfs has all of ours
}

// clone returns a detached copy of the mounts at path.
func clone(path string) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("clone the mounts at %s: %w", path, err)
	}
	return fd, nil
}
