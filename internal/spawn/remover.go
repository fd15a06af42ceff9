// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// Remover removes directories that a process can't remove itself, because it lives in
// one of them: a copy of it, born in another group, waits for its end and does. The
// copy never executes anything, so that it is there within a fraction of a
// millisecond; for the process to move itself out of the way would take an RCU grace
// period (6 to 16 ms).
type Remover struct {
	Leaf  Group        // where the copy is born; it stays
	PidFD int          // of the process whose end it waits for
	Dirs  []RemoverDir // in the order of removal
	// Others is how long somebody else has to remove the last of them. Then it keeps no descriptor that it does not need.
	Others time.Duration
}

// RemoverDir is a directory to remove, by its name in Parent.
type RemoverDir struct {
	Parent Group
	Name   string
}

// removal is what the copy needs, made before the fork.
type removal struct {
	group   int // where the copy is born
	procs   int
	pidfd   int32
	looks   int // whether somebody else has removed the last one
	others  [][2]uint
	parents []int
	names   []*byte
}

// Start starts the copy. It inherits every descriptor, and so keeps locks and sockets
// until it is done.
func (r *Remover) Start() error {
	m, err := removalOf(r.Dirs)
	if err != nil {
		return err
	}
	m.group = r.Leaf.FD()
	m.pidfd, m.looks = int32(r.PidFD), int(r.Others.Nanoseconds()/lookEvery)
	if m.procs, err = r.Leaf.OpenProcs(); err != nil {
		return err
	}
	defer unix.Close(m.procs)
	if r.Others > 0 {
		m.others = allBut(slices.Concat(m.parents, []int{m.procs, r.PidFD})...)
	}
	return startCopy(func() syscall.Errno { return forkRemover(m) })
}

func removalOf(dirs []RemoverDir) (*removal, error) {
	m := &removal{}
	for _, d := range dirs {
		name, err := syscall.BytePtrFromString(d.Name)
		if err != nil {
			return nil, fmt.Errorf("remove %q: %w", d.Name, err)
		}
		m.parents, m.names = append(m.parents, d.Parent.FD()), append(m.names, name)
	}
	return m, nil
}

// startCopy starts a copy of this process by a function that comes back in the caller alone.
func startCopy(fork func() syscall.Errno) error {
	syscall.ForkLock.Lock()
	errno := fork()
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(fork) // and what it needs
	if errno != 0 {
		return fmt.Errorf("fork: %w", errno)
	}
	return nil
}

// forkRemover comes back in the caller alone. The child has a copy of the address
// space, not a loan: its parent goes on.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkRemover(m *removal) syscall.Errno {
	raw.BeforeFork()
	pid, joined, errno := raw.CopyInto(m.group)
	if errno != 0 || pid != 0 {
		raw.AfterFork()
		return errno
	}
	raw.AfterForkInChild()
	remove(m, joined)
	return 0 // not reached
}

// removeTries bounds the wait for a directory whose last process is just leaving it.
const removeTries = 2000

//go:nosplit
//go:norace
func remove(m *removal, joined bool) {
	if !joined {
		_ = raw.Enter(m.procs)
	}
	closeRanges(m.others)
	end := unix.PollFd{Fd: m.pidfd, Events: unix.POLLIN}
	for {
		_, _, e := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&end)), 1, 0, 0, 0, 0)
		if e != syscall.EINTR {
			break
		}
	}
	for last := len(m.names) - 1; m.looks > 0; m.looks-- {
		_, _, e := syscall.RawSyscall(syscall.SYS_FACCESSAT, uintptr(m.parents[last]), uintptr(unsafe.Pointer(m.names[last])), 0)
		if e == syscall.ENOENT {
			raw.Exit(0)
		}
		rest(syscall.Timespec{Nsec: lookEvery}) // of inotify instances a user has 128, and those may be taken
	}
	removeAll(m)
	raw.Exit(0)
}

const lookEvery = 20_000_000 // ns

//go:nosplit
//go:norace
func rest(pause syscall.Timespec) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
}

//go:nosplit
//go:norace
func removeAll(m *removal) {
	for i := 0; i < len(m.names); i++ {
		for try := 0; try < removeTries; try++ {
			_, _, e := syscall.RawSyscall(syscall.SYS_UNLINKAT, uintptr(m.parents[i]), uintptr(unsafe.Pointer(m.names[i])), unix.AT_REMOVEDIR)
			if e != syscall.EBUSY {
				break
			}
			rest(syscall.Timespec{Nsec: 50_000}) // no event says that a directory can be removed
		}
	}
}
