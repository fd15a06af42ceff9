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
	audit   uint32
	execves [4]call
	// begins are calls that almost every program makes once, before main, and its threads do not.
	begins [4]call
	// watcher is the call by which a process calls the watcher: see CallWatcher.
	watcher call
}

// call is a system call, and unless value is 0, one value of one argument. The zero value is no call.
type call struct{ number, argument, value uint32 }

// Numbers of calls, as in syscall_64.tbl, syscall_32.tbl, asm-generic/unistd.h and arm's syscall.tbl. x32 has
// numbers of its own under the same audit name as amd64.
const (
	amd64Execve           = 59
	amd64Execveat         = 322
	amd64ArchPrctl        = 158
	amd64Prctl            = 157
	x32Bit                = 0x40000000 // __X32_SYSCALL_BIT
	x32Execve             = x32Bit + 520
	x32Execveat           = x32Bit + 545
	i386Execve            = 11
	i386Execveat          = 358
	i386SetThreadArea     = 243
	arm64Execve           = 221
	arm64Execveat         = 281
	arm64SetTIDAddress    = 96
	arm64SchedGetaffinity = 123
	arm64Prctl            = 167
	armExecve             = 11
	armExecveat           = 387
)

// Arguments of calls.
const (
	firstArgument  = 0
	secondArgument = 1
	archSetFS      = 0x1002 // ARCH_SET_FS
	goMaskSize     = 8192   // with which the Go runtime calls sched_getaffinity when it begins
)

// Programs of 32 bits run on both machines.
var (
	amd64 = [2]abi{
		{
			audit: unix.AUDIT_ARCH_X86_64,
			execves: [4]call{
				{number: amd64Execve}, {number: amd64Execveat}, {number: x32Execve}, {number: x32Execveat},
			},
			begins:  [4]call{{number: amd64ArchPrctl, argument: firstArgument, value: archSetFS}},
			watcher: call{number: amd64Prctl, argument: firstArgument, value: callOption},
		},
		{
			audit:   unix.AUDIT_ARCH_I386,
			execves: [4]call{{number: i386Execve}, {number: i386Execveat}},
			begins:  [4]call{{number: i386SetThreadArea}},
		},
	}
	arm64 = [2]abi{
		{
			audit:   unix.AUDIT_ARCH_AARCH64,
			execves: [4]call{{number: arm64Execve}, {number: arm64Execveat}},
			begins: [4]call{
				{number: arm64SetTIDAddress},
				{number: arm64SchedGetaffinity, argument: secondArgument, value: goMaskSize},
			},
			watcher: call{number: arm64Prctl, argument: firstArgument, value: callOption},
		},
		{
			audit:   unix.AUDIT_ARCH_ARM,
			execves: [4]call{{number: armExecve}, {number: armExecveat}},
		},
	}
)

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
		f.holdAll(&machine[i], begun)
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

// CanInstall returns why no filter can be had here, or nil. It installs one on a thread that ends at once.
func CanInstall() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with this function, and its filter with it
		listener, errno := Install(!Capable(unix.CAP_SYS_ADMIN), false)
		if errno != 0 {
			result <- Explain(errno)
			return
		}
		result <- unix.Close(listener)
	}()
	return <-result
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

// filter is a BPF program that lets all calls pass but those of its abis.
type filter struct {
	code   [64]unix.SockFilter
	length int
}

const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equals = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	ret    = unix.BPF_RET | unix.BPF_K
)

// add appends an instruction. The remainder takes the place of a bounds check, whose panic needs the runtime.
func (f *filter) add(code uint16, k uint32) *unix.SockFilter {
	added := &f.code[f.length%len(f.code)]
	added.Code = code
	added.K = k
	f.length++
	return added
}

// unless begins instructions that are skipped if the loaded word is not k. endUnless ends them.
func (f *filter) unless(k uint32) (jump *unix.SockFilter, first int) {
	return f.add(equals, k), f.length
}

func (f *filter) endUnless(jump *unix.SockFilter, first int) { jump.Jf = uint8(f.length - first) }

// holdAll holds the calls of one abi, and lets all others pass. begun is as in Install.
func (f *filter) holdAll(a *abi, begun bool) {
	f.add(load, offsetArch)
	jump, first := f.unless(a.audit)
	f.add(load, offsetCall)
	calls := &a.execves
	if begun {
		calls = &a.begins
	}
	for i := range calls {
		f.hold(&calls[i])
	}
	f.hold(&a.watcher)
	f.add(ret, unix.SECCOMP_RET_ALLOW)
	f.endUnless(jump, first)
}

// hold holds a call. The number of the call is loaded before, and afterwards.
func (f *filter) hold(c *call) {
	if c.number == 0 {
		return
	}
	jump, first := f.unless(c.number)
	if c.value == 0 {
		f.add(ret, unix.SECCOMP_RET_USER_NOTIF)
		f.endUnless(jump, first)
		return
	}
	f.add(load, offsetArgs+8*c.argument) // both machines are little-endian
	otherValue, inner := f.unless(c.value)
	f.add(ret, unix.SECCOMP_RET_USER_NOTIF)
	f.endUnless(otherValue, inner)
	f.add(load, offsetCall)
	f.endUnless(jump, first)
}
