// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

const (
	fromGuard = iota
	fromSignals
	fromClient       // stdin, stdout and the client's pidfd, on which the guard has to react
	fromClientItself = fromClient + 2
	fromInput        = fromClient + 3 // while the members are idle
	launcherPolls    = fromInput + 1
)

// launcherEvents are the events that the launcher waits for.
type launcherEvents struct {
	polls   [launcherPolls]unix.PollFd
	timeout unix.Timespec
}

// watch polls what does not change: all but the input.
func (v *launcherEvents) watch(on *page.Page, guard, signals int32) {
	v.polls[fromGuard] = unix.PollFd{Fd: guard, Events: unix.POLLIN}
	v.polls[fromSignals] = unix.PollFd{Fd: signals, Events: unix.POLLIN}
	for i, fd := range [...]int32{on.FD.Stdin, on.FD.Stdout, on.FD.Client} {
		v.polls[fromClient+i] = unix.PollFd{Fd: fd, Events: unix.POLLIN}
	}
}

// watchInput polls the input of idle members, as the guard does: a member may have stopped that.
func (v *launcherEvents) watchInput(on *page.Page, announced bool) {
	v.polls[fromInput] = unix.PollFd{Fd: -1, Events: unix.POLLIN}
	if on.ByBrain.Frozen && !announced {
		v.polls[fromInput].Fd = on.FD.Input
	}
}

// arguments returns the arguments of ppoll(2), which waits until deadline if that is not 0.
func (v *launcherEvents) arguments(deadline int64) (polls, count, timeout uintptr) {
	if deadline != 0 {
		left := max(deadline-now(), 0)
		v.timeout = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		timeout = uintptr(unsafe.Pointer(&v.timeout))
	}
	return uintptr(unsafe.Pointer(&v.polls)), uintptr(len(v.polls)), timeout
}

// take has the events ready for has, after ppoll(2) has returned that error.
func (v *launcherEvents) take(e syscall.Errno) {
	if e != 0 { // then the kernel has written none
		for i := range v.polls {
			v.polls[i].Revents = 0
		}
	}
	if e == syscall.EINVAL {
		v.pollOneByOne()
	}
}

func (v *launcherEvents) has(event int) bool { return v.polls[event].Revents != 0 }

// pollOneByOne polls each descriptor by itself. ppoll(2) refuses them all if the limit of open files is
// below their number: a member may have lowered it.
func (v *launcherEvents) pollOneByOne() {
	sleep(20e6)
	v.polls[fromSignals].Revents = unix.POLLIN // neither is waited for
	v.polls[fromGuard].Revents = unix.POLLIN
	for i := fromClient; i < fromInput; i++ {
		fd := v.polls[i].Fd
		event := unix.EpollEvent{}
		n, e := sys(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&event)), 1, 0, 0)
		hungUp := e == 0 && n == 1
		if e == syscall.EINVAL { // a pidfd
			hungUp = isReaped(fd)
		}
		if hungUp {
			v.polls[i].Revents = unix.POLLIN
		}
	}
}
