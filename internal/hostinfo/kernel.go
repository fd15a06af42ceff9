// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hostinfo

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Oldest is the oldest Linux that servers are tested on: 5.14 brought cgroup.kill.
const Oldest = "5.14"

// Kernel is the running kernel, with the features that it lacks.
type Kernel struct {
	Release string `json:"release"`
	// Old is one that is older than Oldest.
	Old   bool   `json:"old,omitempty"`
	Lacks []Lack `json:"lacks,omitempty"`
}

// Lack is something that a filter in front of the kernel (seccomp) refuses.
type Lack struct {
	Feature string `json:"feature"`
	Then    string `json:"then"` // what that means here
	// Needed: no server can be run without it.
	Needed bool `json:"needed"`
}

// NeededLacks lists the missing features without which no server can run.
func NeededLacks() []Lack { return slices.DeleteFunc(lacks(), func(l Lack) bool { return !l.Needed }) }

func kernelInfo() Kernel {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return Kernel{}
	}
	release := unix.ByteSliceToString(name.Release[:])
	return Kernel{Release: release, Old: old(release), Lacks: lacks()}
}

// old parses a release such as "6.18.5-1-amd64". It returns false for other texts.
func old(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major < 5 || major == 5 && minor < 14)
}

func lacks() []Lack {
	var all []Lack
	add := func(l Lack, call uintptr, args ...uintptr) {
		if unavailable(call, args...) {
			all = append(all, l)
		}
	}
	add(Lack{Feature: "pidfd_send_signal", Then: "no SIGTERM before the kill, and no kill outside the group"},
		unix.SYS_PIDFD_SEND_SIGNAL, bad, 0, 0, 0)
	add(Lack{Feature: "pidfd_open", Then: "no server can be run", Needed: true}, unix.SYS_PIDFD_OPEN, bad, 0)
	add(Lack{Feature: "clone3", Then: "processes are not born in their group, but join it before an execve"},
		unix.SYS_CLONE3, 0, 0)
	return all
}

// bad is no valid descriptor, pid or pointer.
const bad = ^uintptr(0)

// unavailable makes a system call with arguments that it can't accept, so that it has
// no effect where it exists. ENOSYS and EPERM are a filter's.
func unavailable(call uintptr, args ...uintptr) bool {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := unix.Syscall6(call, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno == unix.ENOSYS || errno == unix.EPERM
}
