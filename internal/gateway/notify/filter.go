// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
)

// abi is one way to call the kernel.
type abi struct {
	audit          uint32
	execve, begins [4]call
	watcher        uint32 // the number of prctl, for calls of the watcher; 0 without them
}

// call is a system call, and unless value is 0, one value of one argument.
type call struct{ number, argument, value uint32 }

// Programs of 32 bits run on both machines, and x32 has numbers of its own under the same name as amd64.
// begins are calls that almost every program makes once, before main, and its threads do not:
// arch_prctl(ARCH_SET_FS), set_thread_area; on arm64 set_tid_address, and for Go sched_getaffinity with the
// runtime's own size.
var (
	amd64 = [2]abi{
		{unix.AUDIT_ARCH_X86_64, [4]call{{59, 0, 0}, {322, 0, 0}, {x32 + 520, 0, 0}, {x32 + 545, 0, 0}},
			[4]call{{158, 0, 0x1002}}, 157},
		{unix.AUDIT_ARCH_I386, [4]call{{11, 0, 0}, {358, 0, 0}}, [4]call{{243, 0, 0}}, 0},
	}
	arm64 = [2]abi{
		{unix.AUDIT_ARCH_AARCH64, [4]call{{221, 0, 0}, {281, 0, 0}},
			[4]call{{96, 0, 0}, {123, 1, 8192}}, 167},
		{unix.AUDIT_ARCH_ARM, [4]call{{11, 0, 0}, {387, 0, 0}}, [4]call{}, 0},
	}
)

const x32 = 0x40000000

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
// ptrace. It needs no Go runtime.
func Install(unprivileged, begun bool) (listener int, errno unix.Errno) {
	if unprivileged {
		_, _, errno = unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
		if errno != 0 {
			return -1, errno
		}
	}
	f := filter{}
	machine := &amd64
	if runtime.GOARCH == "arm64" {
		machine = &arm64
	}
	for i := range machine {
		f.hold(&machine[i], begun)
	}
	f.add(ret, unix.SECCOMP_RET_ALLOW)
	prog := unix.SockFprog{Len: uint16(f.length), Filter: &f.code[0]}
	// Without SPEC_ALLOW a kernel before 5.16 makes the whole program slower.
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW)
	fd, errno := seccomp(flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, &prog)
	if errno == unix.EINVAL { // before 5.19 a signal makes the call be notified once more
		fd, errno = seccomp(flags, &prog)
	}
	return fd, errno
}

// Explain is the reason that there is no filter.
func Explain(errno unix.Errno) error {
	if errno == unix.EBUSY { // the kernel allows one listener
		return fmt.Errorf("another program watches what is executed here: %w", errno)
	}
	return fmt.Errorf("install a seccomp filter: %w", errno)
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
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, mode, flags, uintptr(unsafe.Pointer(prog)))
	return int(fd), errno
}

// filter lets everything pass but the calls in question.
type filter struct {
	code   [64]unix.SockFilter
	length int
}

const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ret    = unix.BPF_RET | unix.BPF_K
)

func (f *filter) add(code uint16, k uint32) (at *unix.SockFilter) {
	at = &f.code[f.length%len(f.code)]
	at.Code = code
	at.K = k
	f.length++
	return at
}

// hold adds the calls of one abi.
func (f *filter) hold(a *abi, begun bool) {
	f.add(load, offsetArch)
	other := f.add(equals, a.audit)
	start := f.length
	f.add(load, offsetCall)
	calls := &a.execve
	if begun {
		calls = &a.begins
	}
	for i := range calls {
		f.holdOne(&calls[i])
	}
	f.holdOne(&call{a.watcher, 0, callOption})
	f.add(ret, unix.SECCOMP_RET_ALLOW)
	other.Jf = uint8(f.length - start)
}

func (f *filter) holdOne(c *call) {
	switch {
	case c.number == 0:
	case c.value == 0:
		f.add(equals, c.number).Jf = 1
		f.add(ret, unix.SECCOMP_RET_USER_NOTIF)
	default:
		f.add(equals, c.number).Jf = 4
		f.add(load, offsetArgs+8*c.argument) // both machines are little-endian
		f.add(equals, c.value).Jf = 1
		f.add(ret, unix.SECCOMP_RET_USER_NOTIF)
		f.add(load, offsetCall)
	}
}
