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

// WayBack has the descriptors to move the members of a group back: cgroup.procs of their former cgroup and
// of the group, or -1. They are opened first, because later no descriptor may be left.
type WayBack struct{ origin, members int }

func NoWayBack() WayBack { return WayBack{-1, -1} }

// OpenWayBack fails only for lack of descriptors. Without the right to move a process back, it returns no
// way.
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

// Exists reports whether a process can be moved back.
func (b *WayBack) Exists() bool { return b.origin >= 0 }

// Put moves a process back. It may have exited.
func (b *WayBack) Put(pid int) { _, _ = unix.Write(b.origin, []byte(strconv.Itoa(pid))) }

// Members lists the processes in the group's own directory. A process of another pid namespace has the
// number 0, which would move the writer.
func (b *WayBack) Members() []int {
	buf := make([]byte, 64<<10)
	n, _ := unix.Pread(b.members, buf, 0) // none, if it was removed
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
