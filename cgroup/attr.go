// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Attr returns an extended attribute. ok is false if it is not set, or if the group was removed.
func (g *Group) Attr(name string) (value string, ok bool, err error) {
	buf := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(g.fd, name, buf)
		switch {
		case err == nil:
			return string(buf[:n]), true, nil
		case errors.Is(err, unix.ENODATA) || gone(err):
			return "", false, nil
		case errors.Is(err, unix.ERANGE):
			buf = make([]byte, 64<<10) // XATTR_SIZE_MAX, so that it can't grow past this
		default:
			return "", false, fmt.Errorf("get attribute %s of %q: %w", name, g.path, err)
		}
	}
}

// SetAttr sets an extended attribute. Those in the "user." name space need ownership of the directory.
func (g *Group) SetAttr(name, value string) error {
	if err := unix.Fsetxattr(g.fd, name, []byte(value), 0); err != nil {
		return fmt.Errorf("set attribute %s of %q: %w", name, g.path, err)
	}
	return nil
}

// RemoveAttr removes an extended attribute, if it is set.
func (g *Group) RemoveAttr(name string) error {
	if err := unix.Fremovexattr(g.fd, name); err != nil && !errors.Is(err, unix.ENODATA) {
		return fmt.Errorf("remove attribute %s of %q: %w", name, g.path, err)
	}
	return nil
}

// TryLock takes a flock(2) on the directory without waiting. The lock belongs to the open file description:
// it lasts until all duplicated and inherited descriptors are closed. EWOULDBLOCK means that another
// description has the lock.
func (g *Group) TryLock(how int) error {
	if err := unix.Flock(g.fd, how|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock cgroup %q: %w", g.path, err)
	}
	return nil
}

// Kill writes cgroup.kill. It kills all processes of the subtree, also those that are being forked, but not a
// process whose first thread has exited.
func (g *Group) Kill() error { return g.Write("cgroup.kill", "1") }

// SetFrozen begins to freeze or thaw the group; it does not wait.
func (g *Group) SetFrozen(frozen bool) error {
	if frozen {
		return g.Write("cgroup.freeze", "1")
	}
	return g.Write("cgroup.freeze", "0")
}

// Take moves a process into the group. On an idle host that takes an RCU grace period, 6 to 16 ms.
func (g *Group) Take(pid int) error { return g.Write("cgroup.procs", strconv.Itoa(pid)) }

// Holds reports whether the process is in this very directory, and not below it.
func (g *Group) Holds(pid int) (bool, error) {
	pids, err := g.procs()
	return slices.Contains(pids, pid), err
}

// CPU is the time that the group's processes have used so far; 0 if that cannot be read.
func (g *Group) CPU() time.Duration {
	b, _ := g.Read("cpu.stat")
	usec, _ := proc.Keyed(b, "usage_usec")
	return time.Duration(usec) * time.Microsecond
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

// String is the path, for messages.
func (g *Group) String() string { return strconv.Quote(g.path) }
