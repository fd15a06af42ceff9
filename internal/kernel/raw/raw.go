// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package raw makes system calls for code that runs without a Go runtime, in the copy of a process. Such code
// allocates nothing. All texts end with NUL.
package raw

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:nosplit
func Sys(trap, a1, a2, a3, a4, a5 uintptr) (uintptr, syscall.Errno) {
	return Sys6(trap, a1, a2, a3, a4, a5, 0)
}

//go:nosplit
func Sys6(trap, a1, a2, a3, a4, a5, a6 uintptr) (uintptr, syscall.Errno) {
	r, _, errno := syscall.RawSyscall6(trap, a1, a2, a3, a4, a5, a6)
	return r, errno
}

//go:nosplit
func Exit(status uintptr) {
	for {
		Sys(unix.SYS_EXIT_GROUP, status, 0, 0, 0, 0)
	}
}

//go:nosplit
func SetMask(mask *uint64) syscall.Errno {
	at := uintptr(unsafe.Pointer(mask))
	_, e := Sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, at, 0, unsafe.Sizeof(*mask), 0)
	return e
}

func Close(fd int32) { Sys(unix.SYS_CLOSE, uintptr(fd), 0, 0, 0, 0) }

// Now is CLOCK_MONOTONIC: a suspended machine gives a brain no time to react.
func Now() int64 {
	var ts unix.Timespec
	Sys(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	return ts.Sec*1e9 + ts.Nsec
}

func Sleep(ns int64) {
	ts := unix.Timespec{Nsec: ns}
	Sys(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// WriteFile writes one character to a file of a cgroup.
func WriteFile(dir int32, name string, char byte) syscall.Errno {
	fd, e := OpenAt(dir, name, unix.O_WRONLY)
	if e != 0 {
		return e
	}
	text := [1]byte{char}
	_, e = Sys(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&text)), 1, 0, 0)
	Close(fd)
	return e
}

func OpenAt(dir int32, name string, how uintptr) (int32, syscall.Errno) {
	fd, e := Sys(unix.SYS_OPENAT, uintptr(dir), uintptr(unsafe.Pointer(unsafe.StringData(name))), how|unix.O_CLOEXEC, 0, 0)
	return int32(fd), e
}

// Populated reports whether cgroup.events of a group says so. A group that cannot be read is not.
func Populated(dir int32) bool {
	fd, e := OpenAt(dir, EventsFile, 0)
	if e != 0 {
		return false
	}
	text := [32]byte{} // "populated 0\nfrozen 0"
	n, e := Sys(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&text)), unsafe.Sizeof(text), 0, 0)
	Close(fd)
	return e == 0 && n >= 20 && text[10] == '1'
}

// EventsFile is a file of a cgroup.
const EventsFile = "cgroup.events\x00"
