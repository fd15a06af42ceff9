// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"fmt"
	"math"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// standby is what the process that stands by needs, made before the fork.
type standby struct {
	group, procs int
	alive        int // hangs up when the caller has died
	ready        int
	kill         int
	timer        int
	within       unix.ItimerSpec
	dirs         *removal
	others       [][2]uint // descriptors that are not its own, from and to
}

const (
	wakes     = 32         // a member may stop it again each time
	wakeEvery = 20_000_000 // ns
)

func (s *Standby) prepare(open *descriptors, alive int) (*standby, error) {
	*open = append(*open, s.Ready[0], s.Ready[1])
	timer, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create timer: %w", err)
	}
	*open = append(*open, timer)
	w := &standby{
		group: s.Group.FD(), alive: alive, ready: s.Ready[0], kill: s.Kill, timer: timer,
		within: unix.ItimerSpec{Value: unix.NsecToTimespec(s.Within.Nanoseconds())},
	}
	if w.procs, err = open.procs(s.Group); err != nil {
		return nil, err
	}
	if w.dirs, err = removalOf(s.Dirs); err != nil {
		return nil, err
	}
	own := append([]int{w.procs, w.alive, w.ready, w.kill, w.timer}, w.dirs.parents...)
	slices.Sort(own)
	own = slices.Compact(own)
	from := uint(0)
	for _, fd := range own {
		if uint(fd) > from {
			w.others = append(w.others, [2]uint{from, uint(fd) - 1})
		}
		from = uint(fd) + 1
	}
	w.others = append(w.others, [2]uint{from, math.MaxInt32})
	return w, nil
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

// standBy waits until the parent of a Pair is ready, or has ended before the caller, whose business that is. If it is
// the caller that ends, the parent still has its time.
//
//go:nosplit
//go:norace
func standBy(s *standby, joined bool) {
	all := ^uint64(0)
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, unsafe.Sizeof(all), 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_SETPGID, 0, 0, 0)
	if !joined {
		zero := [1]byte{'0'}
		_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(s.procs), uintptr(unsafe.Pointer(&zero[0])), 1)
	}
	for i := 0; i < len(s.others); i++ {
		closeAll(s.others[i][0], s.others[i][1])
	}
	fds := [3]unix.PollFd{{Fd: int32(s.ready), Events: unix.POLLIN}, {Fd: int32(s.alive)}, {Fd: -1, Events: unix.POLLIN}}
	for {
		fds[0].Revents, fds[1].Revents, fds[2].Revents = 0, 0, 0
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), 3, 0, 0, 0, 0)
		switch {
		case fds[0].Revents != 0:
			if wasReady(s.ready) || fds[1].Fd >= 0 && fds[1].Revents == 0 {
				exit(0)
			}
			killGroup(s)
		case fds[2].Revents != 0:
			killGroup(s)
		case fds[1].Revents != 0:
			fds[1].Fd, fds[2].Fd = -1, int32(s.timer)
			_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(s.timer), 0, uintptr(unsafe.Pointer(&s.within)), 0, 0, 0)
			keepAwake()
		}
	}
}

//go:nosplit
//go:norace
func wasReady(fd int) bool {
	var word [1]byte
	n, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&word[0])), 1)
	return e == 0 && n == 1
}

//go:nosplit
//go:norace
func killGroup(s *standby) {
	one := [1]byte{'1'}
	_, _, _ = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(s.kill), uintptr(unsafe.Pointer(&one[0])), 1)
	removeAll(s.dirs)
	exit(0)
}

// closeAll is close_range(2), or where a filter refuses that as much of it as there may be.
//
//go:nosplit
//go:norace
func closeAll(from, to uint) {
	const most = 4096
	_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(to), 0)
	for fd := from; e != 0 && fd <= to && fd < most; fd++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// keepAwake has the kernel continue this process many times, each by a timer of its own (timer_create(2)).
//
//go:nosplit
//go:norace
func keepAwake() {
	event := struct { // struct sigevent
		value  uint64
		signo  int32
		notify int32 // 0: SIGEV_SIGNAL
		_      [48]byte
	}{signo: int32(unix.SIGCONT)}
	once := unix.ItimerSpec{}
	for i := 0; i < wakes; i++ {
		var id int32
		_, _, e := syscall.RawSyscall(syscall.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&id)))
		if e == 0 {
			once.Value.Nsec += wakeEvery
			_, _, _ = syscall.RawSyscall6(syscall.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&once)), 0, 0, 0)
		}
	}
}
