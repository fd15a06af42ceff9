// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"fmt"
	"math"
	"path"
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
)

// Standby is a copy of this process, in nobody's tree, that kills a group and removes it if the caller dies before
// somebody says that it watches the group: a byte in Ready. Where others have Ready by then, they have a time for that. Of
// signals only SIGKILL ends it. Where the group may have had members it executes a program after the kill, which looks for those that
// have left it.
type Standby struct {
	// Ready is for whoever watches the group then; the caller has it as well.
	Ready int
	alive int // the end of a pipe whose other end is the copy's
}

// what is said to it
const (
	wordReady = 1 // somebody watches the group
	wordBirth = 2 // there may be members from now on
)

// Cleaner is the program that removes a group that has had members, and ends whom the kill has not reached. It has the
// descriptor of the directory above the group.
type Cleaner struct {
	Path string
	Argv func(parent int) []string
}

// StandBy starts one that is born in leaf, for the group dir below parent with its leaves, which need not be there yet. within is how
// long others have after the caller's death.
func StandBy(leaf, parent Group, dir string, leaves []string, within time.Duration, after Cleaner) (*Standby, error) {
	var open descriptors
	defer open.close()
	alive, err := open.pipe()
	if err != nil {
		return nil, err
	}
	ready, err := open.pipe()
	if err != nil {
		return nil, err
	}
	w, err := prepareStandby(&open, leaf, parent, append(leaves, ""), dir)
	if err != nil {
		return nil, err
	}
	w.alive, w.ready, w.within.Value = alive[0], ready[0], unix.NsecToTimespec(within.Nanoseconds())
	if err := w.prepareCleaner(after, parent); err != nil {
		return nil, err
	}
	w.others = allBut(w.procs, w.alive, w.ready, w.timer, w.parent)
	syscall.ForkLock.Lock()
	between, errno := forkStandby(w)
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(w)
	if errno == 0 {
		raw.Reap(between)
		errno = w.errno
	}
	if errno != 0 {
		return nil, fmt.Errorf("fork: %w", errno)
	}
	open.keep(alive[1], ready[1])
	return &Standby{Ready: ready[1], alive: alive[1]}, nil
}

// SayReady says on Ready that somebody watches the group.
func SayReady(ready int) {
	_, _ = unix.Write(ready, []byte{wordReady}) // EPIPE: nobody stands by any more
}

// Birth says that there may be members from now on.
func (s *Standby) Birth() {
	_, _ = unix.Write(s.Ready, []byte{wordBirth}) // EPIPE: somebody has killed it
}

// End returns when nobody stands by any more: the group is in the caller's hands.
func (s *Standby) End(within time.Duration) {
	SayReady(s.Ready)
	_ = unix.Close(s.Ready)
	deadline := time.Now().Add(within)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.alive)}}, int(max(time.Until(deadline), 0).Milliseconds()))
		if n > 0 || err != unix.EINTR {
			break
		}
	}
	_ = unix.Close(s.alive)
}

// standby is what the process that stands by needs, made before the fork.
type standby struct {
	group        int // where it is born
	procs        int
	alive, ready int // hangs up when the caller has died, and when nobody is left who could be ready
	timer        int
	within       unix.ItimerSpec
	kill         *byte // the path of cgroup.kill below parent
	parent       int
	dirs         *removal
	others       [][2]uint // descriptors that are not its own
	errno        syscall.Errno
	cleaner      args
	inhabited    bool // there may be members
}

const (
	wakes     = 32         // in a row: a member may stop it again each time
	wakeEvery = 20_000_000 // ns
)

func prepareStandby(open *descriptors, leaf, parent Group, leaves []string, dir string) (*standby, error) {
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	*open = append(*open, timer)
	w := &standby{
		group: leaf.FD(),
		timer: timer, parent: parent.FD(), errno: syscall.EINTR, // unless the one in between lives to say otherwise
	}
	if w.procs, err = open.procs(leaf); err != nil {
		return nil, err
	}
	var dirs []RemoverDir
	for _, name := range leaves {
		dirs = append(dirs, RemoverDir{Parent: parent, Name: path.Join(dir, name)})
	}
	if w.dirs, err = removalOf(dirs); err != nil {
		return nil, err
	}
	w.kill, err = syscall.BytePtrFromString(path.Join(dir, "cgroup.kill"))
	return w, err
}

func (s *standby) prepareCleaner(c Cleaner, parent Group) error {
	a, err := (&Cmd{Path: c.Path, Argv: c.Argv(parent.FD())}).prepare()
	if err == nil {
		s.cleaner = *a
	}
	return err
}

// allBut are the descriptors that are not the given ones, from and to.
func allBut(own ...int) (others [][2]uint) {
	slices.Sort(own)
	from := uint(0)
	for _, fd := range own {
		if uint(fd) > from {
			others = append(others, [2]uint{from, uint(fd) - 1})
		}
		from = max(from, uint(fd)+1)
	}
	return append(others, [2]uint{from, math.MaxInt32})
}

//go:nosplit
//go:norace
func closeRanges(all [][2]uint) {
	for i := 0; i < len(all); i++ {
		raw.CloseAll(all[i][0], all[i][1])
	}
}

// forkStandby returns the pid of the process in between in the caller; elsewhere it does not return. What goes wrong in the one in
// between is in errno, for that borrows the address space.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkStandby(s *standby) (int, syscall.Errno) {
	raw.BeforeFork()
	between, errno := vfork(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD)|vforkFlags, 0)
	if errno != 0 || between != 0 {
		raw.AfterFork()
		return int(between), syscall.Errno(errno)
	}
	raw.AfterForkInChild()
	pid, joined, failure := raw.CopyInto(s.group)
	if failure == 0 && pid == 0 {
		standBy(s, joined)
	}
	if failure == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, pid, pid, 0) // out of reach of who kills the caller's process group
		wakeAtDeath(s.alive, pid)
	}
	s.errno = failure
	raw.Exit(0)
	return 0, 0 // not reached
}

// wakeAtDeath has the kernel continue a process when nobody has the other end of a pipe any more (fcntl(2), F_SETSIG).
//
//go:nosplit
//go:norace
func wakeAtDeath(fd int, pid uintptr) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), unix.F_SETOWN, pid)
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), unix.F_SETSIG, uintptr(syscall.SIGCONT))
	_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), unix.F_SETFL, unix.O_ASYNC)
}

// standBy waits until somebody is ready, or nobody is left who could be. If it is the caller that ends, the others still
// have their time.
//
//go:nosplit
//go:norace
func standBy(s *standby, joined bool) {
	all := ^uint64(0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, unsafe.Sizeof(all), 0, 0)
	if !joined {
		_ = raw.Enter(s.procs)
	}
	closeRanges(s.others)
	fds := [3]unix.PollFd{{Fd: int32(s.ready), Events: unix.POLLIN}, {Fd: int32(s.alive)}, {Fd: -1, Events: unix.POLLIN}}
	for {
		fds[0].Revents, fds[1].Revents, fds[2].Revents = 0, 0, 0
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 3, 0, 0, 0, 0)
		switch {
		case fds[0].Revents != 0:
			switch word(s.ready) {
			case wordReady:
				raw.Exit(0)
			case wordBirth:
				s.inhabited = true
			default:
				killGroup(s)
			}
		case fds[2].Revents != 0:
			killGroup(s)
		case fds[1].Revents != 0:
			fds[1].Fd, fds[2].Fd = -1, int32(s.timer)
			_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(s.timer), 0, uintptr(unsafe.Pointer(&s.within)), 0, 0, 0)
			keepAwake(unix.Timespec{})
			keepAwake(s.within.Value)
		}
	}
}

//go:nosplit
//go:norace
func word(fd int) byte {
	var said [1]byte
	_, _, _ = syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&said[0])), 1)
	return said[0]
}

//go:nosplit
//go:norace
func killGroup(s *standby) {
	one := [1]byte{'1'}
	fd, _, e := syscall.RawSyscall6(syscall.SYS_OPENAT, uintptr(s.parent), uintptr(unsafe.Pointer(s.kill)), unix.O_WRONLY|unix.O_NOFOLLOW, 0, 0, 0)
	if e == 0 { // before Linux 5.14 there is no such file; then it removes what is empty
		_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(&one[0])), 1)
	}
	if s.inhabited {
		_, _, _ = syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(s.parent), syscall.F_SETFD, 0)
		_ = execute(s.cleaner.path, s.cleaner.argv, s.cleaner.env)
		raw.Exit(1) // a sweep has to do it
	}
	removeAll(s.dirs)
	raw.Exit(0)
}

// keepAwake has the kernel continue this process many times after that long.
//
//go:nosplit
//go:norace
func keepAwake(after unix.Timespec) {
	for i := 0; i < wakes; i++ {
		if after.Nsec += wakeEvery; after.Nsec >= 1e9 {
			after.Sec++
			after.Nsec -= 1e9
		}
		ContinueAfter(after)
	}
}

// ContinueAfter has the kernel continue the calling process by SIGCONT after that long, by a timer of its own
// (timer_create(2)). It is best effort. Only system calls are made.
//
//go:nosplit
//go:norace
func ContinueAfter(after unix.Timespec) {
	event := struct { // struct sigevent
		value  uint64
		signo  int32
		notify int32 // 0: SIGEV_SIGNAL
		_      [48]byte
	}{signo: int32(unix.SIGCONT)}
	var id int32
	_, _, e := syscall.RawSyscall(syscall.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
	if e != 0 {
		return
	}
	once := unix.ItimerSpec{Value: after}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&once)), 0, 0, 0)
}
