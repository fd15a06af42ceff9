// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	fromGuard = iota
	fromSignals
	launcherPolls
)

// launcherEvents are the events that the launcher waits for.
type launcherEvents struct {
	polls   [launcherPolls]unix.PollFd
	timeout unix.Timespec
}

func (v *launcherEvents) watch(guard, signals int32) {
	v.polls[fromGuard] = unix.PollFd{Fd: guard, Events: unix.POLLIN}
	v.polls[fromSignals] = unix.PollFd{Fd: signals, Events: unix.POLLIN}
}

// arguments returns the arguments of ppoll(2), which waits for that time if it is not 0.
func (v *launcherEvents) arguments(most int64) (polls, count, timeout uintptr) {
	if most != 0 {
		v.timeout = unix.Timespec{Nsec: most}
		timeout = uintptr(unsafe.Pointer(&v.timeout))
	}
	return uintptr(unsafe.Pointer(&v.polls)), uintptr(len(v.polls)), timeout
}

// take has the events ready for has, after ppoll(2) has returned that error.
func (v *launcherEvents) take(e syscall.Errno) {
	if e == syscall.EINVAL { // RLIMIT_NOFILE is too low for it to see anything
		exit(125) // the guard kills the server
	}
	for i := range v.polls {
		if e != 0 { // then the kernel has written none
			v.polls[i].Revents = 0
		}
	}
}

func (v *launcherEvents) has(event int) bool { return v.polls[event].Revents != 0 }
