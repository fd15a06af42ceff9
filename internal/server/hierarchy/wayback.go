// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hierarchy

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// WayBack is what it takes to put the members of a group back: of where they were, and of where they are, cgroup.procs, or -1. Both
// are open before anybody is moved, for later there may be no descriptor left.
type WayBack struct{ origin, members int }

// NoWayBack is where nobody has been moved yet, or can be moved back.
func NoWayBack() WayBack { return WayBack{-1, -1} }

// OpenWayBack fails for lack of descriptors alone. Where there is no right to move anybody back there is no way.
func OpenWayBack(origin string, group *cgroup.Group) (WayBack, error) {
	b := NoWayBack()
	err := b.open(origin, group)
	if err == nil {
		return b, nil
	}
	b.Close()
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return b, err
	}
	return b, nil
}

func (b *WayBack) open(path string, group *cgroup.Group) error {
	here, err := PositionOf(os.Getpid())
	if err != nil {
		return err
	}
	defer here.Root.Close()
	origin, err := here.Open(path)
	if err != nil {
		return err
	}
	defer origin.Close()
	if b.origin, err = origin.OpenFile("cgroup.procs", unix.O_WRONLY); err != nil {
		return err
	}
	b.members, err = group.OpenFile("cgroup.procs", unix.O_RDONLY)
	return err
}

// Exists tells whether anybody can be put back.
func (b *WayBack) Exists() bool { return b.origin >= 0 }

// Put puts a process back, which may have ended.
func (b *WayBack) Put(pid int) { _, _ = unix.Write(b.origin, []byte(strconv.Itoa(pid))) }

// Members lists who is in the group's own directory. Who is in another pid namespace has the number 0, which is
// nobody's: written to cgroup.procs it would move the writer.
func (b *WayBack) Members() []int {
	buf := make([]byte, 64<<10)
	n, _ := unix.Pread(b.members, buf, 0) // nobody, if it is gone
	all, _ := proc.ParsePIDs(buf[:max(n, 0)])
	return slices.DeleteFunc(all, func(pid int) bool { return pid == 0 })
}

func (b *WayBack) Close() {
	for _, fd := range []int{b.origin, b.members} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	*b = NoWayBack()
}
