// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cgroup is one cgroup v2 directory, held by descriptor. So a directory that was removed and made
// again under the same name is never used by mistake; the path is for messages alone.
package cgroup

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Group is one open cgroup v2 directory. The zero value is not usable.
type Group struct {
	fd   int
	path string
}

// Open opens the existing cgroup directory at path. It refuses what is not on a
// cgroup2 file system: on a cgroup v1 host /sys/fs/cgroup is a tmpfs, where making
// directories and writing files seems to work and contains nothing.
func Open(path string) (*Group, error) {
	fd, err := openDir(unix.AT_FDCWD, path)
	if err != nil {
		return opened(fd, path, err)
	}
	return FromFD(fd, path)
}

func opened(fd int, path string, err error) (*Group, error) {
	if err != nil {
		return nil, &fs.PathError{Op: "open cgroup", Path: path, Err: err}
	}
	return &Group{fd: fd, path: path}, nil
}

// failed adds the attempt and the file to an error, unless that is nil.
func (g *Group) failed(try, file string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: try, Path: path.Join(g.path, file), Err: err}
}

// FromFD takes over a descriptor of a cgroup directory, e.g. one that was inherited.
func FromFD(fd int, path string) (*Group, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	if err == nil && st.Type != unix.CGROUP2_SUPER_MAGIC {
		err = proc.Unsupported("not on a cgroup2 mount")
	}
	if err != nil {
		_ = unix.Close(fd) // the error that matters is the one we return
	}
	return opened(fd, path, err)
}

// FD is the directory's descriptor, which stays the Group's own; -1 for nil.
func (g *Group) FD() int {
	if g == nil {
		return -1
	}
	return g.fd
}

// Path is where the directory was when it was opened.
func (g *Group) Path() string { return g.path }

// Same reports whether other is the same directory, and not a new one of the same name.
func (g *Group) Same(other *Group) bool {
	var a, b unix.Stat_t
	return unix.Fstat(g.fd, &a) == nil && unix.Fstat(other.fd, &b) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// Close closes the descriptor and leaves the directory alone. It fails for nil.
func (g *Group) Close() error { return unix.Close(g.FD()) }

// Mkdir makes and opens the directory name below g. It fails with fs.ErrExist
// where it is there already: a group is never adopted, because on newer kernels
// (6.18) whatever is cloned into a group that was killed once is killed at birth.
func (g *Group) Mkdir(name string, mode uint32) (*Group, error) {
	if err := g.failed("create cgroup", name, unix.Mkdirat(g.fd, name, mode)); err != nil {
		return nil, err
	}
	return g.Child(name)
}

// MkdirOpen opens the directory name below g, making it where it is missing. It
// is for the shared levels above the groups.
func (g *Group) MkdirOpen(name string, mode uint32) (*Group, error) {
	child, err := g.Child(name)
	if errors.Is(err, fs.ErrNotExist) {
		if child, err = g.Mkdir(name, mode); errors.Is(err, fs.ErrExist) {
			return g.Child(name)
		}
	}
	return child, err
}

// Child opens the existing directory name below g.
func (g *Group) Child(name string) (*Group, error) {
	fd, err := openDir(g.fd, name)
	return opened(fd, path.Join(g.path, name), err)
}

// An os.File would be non-blocking and pollable: a write to which the kernel answers EAGAIN (memory.reclaim)
// would park for ever. os.WriteFile adds O_CREATE, which turns the ENOENT of a missing file into EACCES.

func open(dir int, name string, flags int) (int, error) {
	return unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
}

func openDir(dir int, name string) (int, error) {
	return open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
}

// Read returns the content of one of the group's files.
func (g *Group) Read(file string) ([]byte, error) {
	b, err := proc.ReadAt(g.fd, file, proc.NoLimit)
	return b, g.failed("read", file, err)
}

// Write writes value to one of the group's files with a single write(2).
func (g *Group) Write(file, value string) error {
	fd, err := g.OpenFile(file, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for err = unix.EINTR; err == unix.EINTR; { // of memory.reclaim
		_, err = unix.Write(fd, []byte(value))
	}
	return g.failed("write "+strconv.Quote(value)+" to", file, err)
}

// OpenFile opens one of the group's files; a change of some shows as POLLPRI.
func (g *Group) OpenFile(file string, flags int) (int, error) {
	fd, err := open(g.fd, file, flags)
	return fd, g.failed("open", file, err)
}

// Parent opens the directory above g.
func (g *Group) Parent() (*Group, error) { return g.Child("..") }

// Attr returns an extended attribute. ok is false if it is not set, or if the group was removed.
func (g *Group) Attr(name string) (value string, ok bool, err error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(g.fd, name, buf)
		switch {
		case err == nil:
			return string(buf[:n]), true, nil
		case errors.Is(err, unix.ENODATA) || proc.IsGone(err):
			return "", false, nil
		case errors.Is(err, unix.ERANGE):
			buf = make([]byte, 64<<10) // XATTR_SIZE_MAX, so that it can't grow past this
		default:
			return "", false, g.failed("get attribute "+name+" of", "", err)
		}
	}
}

// SetAttr sets an extended attribute. Those in the "user." name space need ownership of the directory.
func (g *Group) SetAttr(name, value string) error {
	return g.failed("set attribute "+name+" of", "", unix.Fsetxattr(g.fd, name, []byte(value), 0))
}

// RemoveAttr removes an extended attribute. ENODATA means that it is not set.
func (g *Group) RemoveAttr(name string) error {
	return g.failed("remove attribute "+name+" of", "", unix.Fremovexattr(g.fd, name))
}

// TryLock takes a flock(2) on the directory without waiting. The lock belongs to the open file description:
// it lasts until all duplicated and inherited descriptors are closed. EWOULDBLOCK means that another
// description has the lock.
func (g *Group) TryLock(how int) error {
	return g.failed("lock cgroup", "", unix.Flock(g.fd, how|unix.LOCK_NB))
}

// Kill writes cgroup.kill. It kills all processes of the subtree, also those that are being forked, but not a
// process whose first thread has exited.
func (g *Group) Kill() error { return g.Write("cgroup.kill", "1") }

// Freeze begins to freeze the group; it does not wait.
func (g *Group) Freeze() error { return g.Write("cgroup.freeze", "1") }

// Thaw begins to thaw the group and all groups below it, which a member may have frozen.
func (g *Group) Thaw() error {
	return g.Each(func(sub *Group) error { return proc.IgnoreGone(sub.ThawAlone()) })
}

// ThawAlone leaves groups frozen that a member has frozen.
func (g *Group) ThawAlone() error { return g.Write("cgroup.freeze", "0") }

// Take moves a process into the group. On an idle host that takes an RCU grace period, 6 to 16 ms.
func (g *Group) Take(pid int) error { return g.Write("cgroup.procs", strconv.Itoa(pid)) }

// CPU is the time that the group's processes have used so far.
func (g *Group) CPU() (time.Duration, error) {
	b, err := g.Read("cpu.stat")
	if err != nil {
		return 0, err
	}
	usec, _ := proc.Keyed(b, "usage_usec") // every kernel with cgroup v2 has it
	return time.Duration(usec) * time.Microsecond, nil
}

// Number reads a file with one number. It is nil without the file, and for a word like "max".
func (g *Group) Number(file string) *uint64 {
	b, _ := g.Read(file)
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
