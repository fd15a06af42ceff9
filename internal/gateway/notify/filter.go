// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

// abi is one way to call the kernel.
type abi struct {
	audit          uint32
	execve, begins []call
}

// call is a system call with one value of one argument, or with any for -1.
type call struct {
	number   uint32
	argument int
	value    uint32
}

func anyOf(numbers ...uint32) (all []call) {
	for _, n := range numbers {
		all = append(all, call{n, -1, 0})
	}
	return all
}

// abis: programs of 32 bits run on both machines, and x32 has numbers of its own under the same name as
// amd64. begins are calls that almost every program makes once, before main, and its threads do not:
// arch_prctl(ARCH_SET_FS), set_thread_area; on arm64 set_tid_address, and for Go sched_getaffinity with the
// runtime's own size.
func abis() []abi {
	const x32, setFS = 0x40000000, 0x1002
	switch runtime.GOARCH {
	case "amd64":
		return []abi{
			{unix.AUDIT_ARCH_X86_64, anyOf(59, 322, x32+520, x32+545), []call{{158, 0, setFS}}},
			{unix.AUDIT_ARCH_I386, anyOf(11, 358), anyOf(243)},
		}
	case "arm64":
		return []abi{
			{unix.AUDIT_ARCH_AARCH64, anyOf(221, 281), []call{{96, -1, 0}, {123, 1, 8192}}},
			{unix.AUDIT_ARCH_ARM, anyOf(11, 387), nil},
		}
	}
	return nil
}

// Offsets in struct seccomp_data.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

// Install puts the filter on the calling thread, which must be locked, and returns the listener's descriptor.
// The next execve of this thread leaves it the only one, so that the whole process has the filter then.
// unprivileged sets no_new_privs, without which the kernel takes a filter from root alone. begun holds
// programs when they begin, and not at their execve: then the command line can be read without the right to
// ptrace.
func Install(unprivileged, begun bool) (listener int, err error) {
	filter := program(abis(), begun)
	if filter == nil {
		return -1, fmt.Errorf("no filter for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
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
	case unix.EBUSY: // the kernel allows one listener
		return -1, fmt.Errorf("another program watches what is executed here: %w", errno)
	}
	return -1, fmt.Errorf("install a seccomp filter: %w", errno)
}

// Exec is execve(2) for the thread that has the filter. The Go runtime preempts a thread by SIGURG as long as
// it does not know that a system call lasts; each one would abort the execve that waits for its answer, and
// notify it once more. With its default action the signal is discarded, and execve(2) resets handlers anyway.
func Exec(path string, argv, env []string) error {
	was := linux.ActionOf(unix.SIGURG)
	new(linux.Action).Set(unix.SIGURG)
	err := unix.Exec(path, argv, env)
	was.Set(unix.SIGURG)
	return err
}

func seccomp(flags uintptr, prog *unix.SockFprog) (int, unix.Errno) {
	mode := uintptr(unix.SECCOMP_SET_MODE_FILTER)
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, mode, flags, uintptr(unsafe.Pointer(prog)))
	return int(fd), errno
}

// program lets everything pass but the calls in question.
func program(all []abi, begun bool) []unix.SockFilter {
	if all == nil {
		return nil
	}
	var prog []unix.SockFilter
	for _, a := range all {
		block, calls := []unix.SockFilter{load(offsetCall)}, a.execve
		if begun {
			calls = a.begins
		}
		for _, c := range calls {
			if c.argument < 0 {
				block = append(block, skipUnless(c.number, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
				continue
			}
			low := load(offsetArgs + 8*uint32(c.argument)) // both machines are little-endian
			block = append(block, skipUnless(c.number, 4), low, skipUnless(c.value, 1),
				answer(unix.SECCOMP_RET_USER_NOTIF), load(offsetCall))
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
