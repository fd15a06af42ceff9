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

// Attr returns the extended attribute name. ok is false where it is not set or
// the group is gone.
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

// RemoveAttr removes an extended attribute of the directory. One that is not there is no error.
func (g *Group) RemoveAttr(name string) error {
	if err := unix.Fremovexattr(g.fd, name); err != nil && !errors.Is(err, unix.ENODATA) {
		return fmt.Errorf("remove attribute %s of %q: %w", name, g.path, err)
	}
	return nil
}

// TryLock takes a flock(2) on the directory without waiting. The lock belongs to
// the open file description: it lasts until every descriptor that was duplicated
// or inherited from this one is closed. EWOULDBLOCK means that another holds it.
func (g *Group) TryLock(how int) error {
	// an O_PATH descriptor can't lock; ours is O_RDONLY
	err := unix.Flock(g.fd, how|unix.LOCK_NB)
	for err == unix.EINTR {
		err = unix.Flock(g.fd, how|unix.LOCK_NB)
	}
	if err != nil {
		return fmt.Errorf("lock cgroup %q: %w", g.path, err)
	}
	return nil
}

// Kill writes cgroup.kill: every process of the subtree is killed, those being forked too. It misses a process
// whose first thread has exited.
func (g *Group) Kill() error { return g.Write("cgroup.kill", "1") }

// SetFrozen asks the kernel to freeze or thaw; it does not wait.
func (g *Group) SetFrozen(frozen bool) error {
	if frozen {
		return g.Write("cgroup.freeze", "1")
	}
	return g.Write("cgroup.freeze", "0")
}

// Enter moves the calling process into the group. On an idle host that costs an
// RCU grace period, 6 to 16 ms.
func (g *Group) Enter() error { return g.Write("cgroup.procs", "0") }

// Take moves another process into the group, at the same cost.
func (g *Group) Take(pid int) error { return g.Write("cgroup.procs", strconv.Itoa(pid)) }

// Holds tells whether the process pid is in this very directory.
func (g *Group) Holds(pid int) (bool, error) {
	pids, err := procs(g.fd)
	if err != nil {
		return false, fmt.Errorf("read cgroup.procs of %q: %w", g.path, err)
	}
	return slices.Contains(pids, pid), nil
}

// CPU is what the group's processes have used so far; 0 where that can't be read.
func (g *Group) CPU() time.Duration {
	var buf [4096]byte
	b, err := readShort(g.fd, "cpu.stat", buf[:])
	if err != nil {
		return 0
	}
	usec, _ := proc.Keyed(b, "usage_usec")
	return time.Duration(usec) * time.Microsecond
}

// Number is the content of a file with one number; ok is false where there is none, or a word
// like "max".
func (g *Group) Number(file string) (n uint64, ok bool) {
	var buf [64]byte
	b, err := readShort(g.fd, file, buf[:])
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 64)
	return n, err == nil
}

// String names the group for messages.
func (g *Group) String() string { return strconv.Quote(g.path) }
