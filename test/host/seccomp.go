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

// refuse installs a filter on the calling thread, which execve keeps. It needs root or no_new_privs, so it
// comes before becomeUser. All else passes, and all that programs for other architectures do: the numbers
// mean other calls there.
func (p poorPlan) refuse() error {
	if p.Refuse.Errno == 0 {
		return nil
	}
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no seccomp filter for %s", runtime.GOARCH)
	}
	load, unless, answer := uint16(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS), uint16(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K), uint16(unix.BPF_RET|unix.BPF_K)
	filter := []unix.SockFilter{
		{Code: load, K: seccompArch},
		{Code: unless, K: arch, Jf: 3},
		{Code: load, K: seccompCall},
		{Code: unless, K: p.Refuse.Call, Jf: 1},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | p.Refuse.Errno},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
