// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A refusal is a system call that fails with an errno.
type refusal struct{ Call, Errno uint32 }

// Offsets in struct seccomp_data.
const (
	seccompCall = 0
	seccompArch = 4
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refuse installs the filter on the calling thread, which execve keeps. It needs
// root or no_new_privs, so it comes before becomeUser.
func (p poorPlan) refuse() error {
	if len(p.Refuse) == 0 {
		return nil
	}
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no seccomp filter for %s", runtime.GOARCH)
	}
	filter := filterFor(arch, p.Refuse)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// filterFor lets everything else pass, and all that programs for other
// architectures do: the numbers mean other calls there.
func filterFor(arch uint32, refusals []refusal) []unix.SockFilter {
	filter := []unix.SockFilter{
		load(seccompArch),
		skipUnless(arch, uint8(1+2*len(refusals))),
		load(seccompCall),
	}
	for _, r := range refusals {
		filter = append(filter, skipUnless(r.Call, 1), answer(unix.SECCOMP_RET_ERRNO|r.Errno))
	}
	return append(filter, answer(unix.SECCOMP_RET_ALLOW))
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
