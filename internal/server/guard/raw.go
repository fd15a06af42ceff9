// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/raw"
)

// All code that runs in the guard follows these rules. It makes system calls and nothing else. It stores no pointers, because a
// store may call the garbage collector's write barrier. It reads no variable of a package, because the guard has no copy
// of those. Functions need no go:nosplit there: the guard's g has a stack guard of 0, see forkOn.

// forkOn makes a system call that starts a process with a stack of its own. The new process calls guardMain(p), with g as
// its goroutine as far as the compiler is concerned.
//
//go:noescape
func forkOn(trap, a1, a2, a3, a4, a5 uintptr, p *process, gp *goroutine) (pid, errno uintptr)

// vfork makes the system call trap, clone or clone3, with CLONE_VM and CLONE_VFORK in its flags. Parent and child return in
// the same frame of the caller, which the child must not leave.
//
//go:noescape
func vfork(trap, a1, a2 uintptr) (pid, errno uintptr)

// goroutine stands for the runtime's g, of which compiled code reads stackguard0 alone, the third word.
type goroutine [64]uintptr

// cloneArgs is struct clone_args of clone3(2) up to cgroup (Linux 5.7).
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal uint64
	stack, stackSize, tls, setTID, setTIDSize     uint64
	cgroup                                        uint64
}

const vforkFlags = unix.CLONE_VM | unix.CLONE_VFORK

// refused reports whether clone3 into a cgroup is not to be had: seccomp answers ENOSYS or EPERM, a kernel before 5.7 E2BIG or
// EINVAL. Then clone(2) starts the process, which joins the cgroup before it does anything else.
//
//go:nosplit
func refused(errno uintptr) bool {
	switch syscall.Errno(errno) {
	case syscall.ENOSYS, syscall.EPERM, syscall.E2BIG, syscall.EINVAL:
		return true
	}
	return false
}

// sendGo sends wordGo with up to two descriptors.
func sendGo(sock, payload, leaf int32) syscall.Errno {
	word := byte(wordGo)
	iov := [2]uintptr{uintptr(unsafe.Pointer(&word)), 1}
	rights := [3]uint64{16, unix.SOL_SOCKET | unix.SCM_RIGHTS<<32, uint64(uint32(payload)) | uint64(uint32(leaf))<<32}
	header := [7]uintptr{2: uintptr(unsafe.Pointer(&iov)), 3: 1}
	for _, fd := range [...]int32{payload, leaf} {
		if fd >= 0 {
			rights[0] += 4
			header[4], header[5] = uintptr(unsafe.Pointer(&rights)), unsafe.Sizeof(rights)
		}
	}
	_, e := raw.Sys(unix.SYS_SENDMSG, uintptr(sock), uintptr(unsafe.Pointer(&header)), unix.MSG_NOSIGNAL, 0, 0)
	return e
}

// names of files, in read-only memory
const (
	procsFile    = "cgroup.procs\x00"
	freezeFile   = "cgroup.freeze\x00"
	killFile     = "cgroup.kill\x00"
	cgroupFile   = "/proc/self/cgroup\x00"
	childrenFile = "/proc/thread-self/children\x00"
)
