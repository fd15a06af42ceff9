// SPDX-License-Identifier: Apache-2.0

//go:build linux

package notify

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abi is one way to call the kernel, with the numbers that execve and execveat have in it.
type abi struct {
	audit  uint32
	calls  []uint32
	begins []begin
}

// begin is a call that almost every program makes once, before main.
type begin struct {
	call     uint32
	argument int // that has to have the value; -1 for any
	value    uint32
}

// abis: programs of 32 bits run on both machines, and x32 has numbers of its own under the
// same name as amd64. A function, so that it costs no other command's start anything.
func abis() []abi {
	switch runtime.GOARCH {
	case "amd64":
		return []abi{
			{unix.AUDIT_ARCH_X86_64, []uint32{59, 322, x32 + 520, x32 + 545}, []begin{{158, 0, archSetFS}}},
			{unix.AUDIT_ARCH_I386, []uint32{11, 358}, []begin{{243, -1, 0}}}, // set_thread_area
		}
	case "arm64":
		return []abi{
			// glibc and musl call set_tid_address, and Go asks for its processors in a buffer of this size.
			{unix.AUDIT_ARCH_AARCH64, []uint32{221, 281}, []begin{{96, -1, 0}, {123, 1, 8192}}},
			{unix.AUDIT_ARCH_ARM, []uint32{11, 387}, nil},
		}
	}
	return nil
}

const (
	x32       = 0x40000000
	archSetFS = 0x1002 // arch_prctl(2): where a thread has its own variables
)

// Begins tells whether the caller is a program that begins; otherwise it executes one.
func (r *Request) Begins() bool {
	switch r.Arch {
	case unix.AUDIT_ARCH_X86_64:
		return r.Call == 158
	case unix.AUDIT_ARCH_I386:
		return r.Call == 243
	case unix.AUDIT_ARCH_AARCH64:
		return r.Call == 96 || r.Call == 123
	}
	return false
}

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

// ErrTaken says that a filter around us has a listener already; the kernel allows one.
var ErrTaken = errors.New("another program watches what is executed here")

// Install puts the filter on the calling thread, which must be locked, and returns the
// listener's descriptor. The next execve of this thread leaves it the only one, so that the
// whole process has the filter then. unprivileged sets no_new_privs, without which the
// kernel takes a filter from root alone.
func Install(unprivileged bool) (listener int, err error) {
	filter := program(abis())
	if filter == nil {
		return -1, fmt.Errorf("no filter for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	if err := supported(); err != nil {
		return -1, err
	}
	if unprivileged {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	// Without SPEC_ALLOW a kernel before 5.16 makes the whole program slower.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	fd, errno := seccomp(flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog)
	if errno == unix.EINVAL { // before 5.19 a signal makes the call be notified once more
		fd, errno = seccomp(flags, &prog)
	}
	switch errno {
	case 0:
		return fd, nil
	case unix.EBUSY:
		return -1, fmt.Errorf("%w: %w", ErrTaken, errno)
	}
	return -1, fmt.Errorf("install a seccomp filter: %w", errno)
}

// Exec is execve(2) for the thread that has the filter. The Go runtime preempts a thread by SIGURG as long as
// it does not know that a system call lasts; each one would abort the execve that waits for its answer, and
// notify it once more. With its default action the signal is discarded, and execve(2) resets handlers anyway.
func Exec(path string, argv, env []string) error {
	var was, byDefault [4]uintptr // the kernel's struct sigaction, whose first word 0 is SIG_DFL
	action := func(to, old *[4]uintptr) {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGURG),
			uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), 8, 0, 0) // it can't fail
	}
	action(&byDefault, &was)
	err := unix.Exec(path, argv, env)
	action(&was, nil)
	return err
}

func seccomp(flags uintptr, prog *unix.SockFprog) (int, unix.Errno) {
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(prog)))
	return int(fd), errno
}

// supported: before 5.5 there is a listener, but it can't let a call go on.
func supported() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("ask for the kernel's version: %w", err)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); n == 2 && major*1000+minor < 5005 {
		return fmt.Errorf("on Linux %d.%d a call that was watched can't go on (requires 5.5): %w", major, minor, errors.ErrUnsupported)
	}
	return nil
}

// program lets everything pass but what executes a program, and with what one begins.
func program(all []abi) []unix.SockFilter {
	if all == nil {
		return nil
	}
	var prog []unix.SockFilter
	for _, a := range all {
		block := []unix.SockFilter{load(offsetCall)}
		for _, nr := range a.calls {
			block = append(block, skipUnless(nr, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
		}
		for _, b := range a.begins {
			if b.argument < 0 {
				block = append(block, skipUnless(b.call, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
				continue
			}
			low := load(offsetArgs + 8*uint32(b.argument)) // both machines are little-endian
			block = append(block, skipUnless(b.call, 4), low, skipUnless(b.value, 1), answer(unix.SECCOMP_RET_USER_NOTIF), load(offsetCall))
		}
		block = append(block, answer(unix.SECCOMP_RET_ALLOW))
		prog = append(prog, load(offsetArch), skipUnless(a.audit, uint8(len(block))))
		prog = append(prog, block...)
	}
	return append(prog, answer(unix.SECCOMP_RET_ALLOW))
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// skipUnless skips n instructions unless what was loaded is value.
func skipUnless(value uint32, n uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value, Jf: n}
}

func answer(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}
