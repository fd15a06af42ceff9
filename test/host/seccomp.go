// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A refusal is a system call that fails with an errno. If Except is not zero, it is let pass where the first
// argument is that. If Only is not zero, it fails only where the first argument has one of these bits.
type refusal struct{ Call, Errno, Except, Only uint32 }

// Offsets in struct seccomp_data.
const (
	seccompCall     = 0
	seccompArch     = 4
	seccompArgument = 16 // the low half of the first one
)

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refuse installs a filter on the calling thread, which execve keeps. It needs root or no_new_privs, so it
// comes before becomeUser. All else passes, and all that programs for other architectures do: the numbers
// mean other calls there.
func (p poorPlan) refuse() error {
	if len(p.Refuse) == 0 {
		return nil
	}
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no seccomp filter for %s", runtime.GOARCH)
	}
	filter := []unix.SockFilter{
		{Code: loadWord, K: seccompArch},
		{Code: ifEqual, K: arch, Jt: 1},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	for _, r := range p.Refuse {
		filter = append(filter, r.instructions()...)
	}
	filter = append(filter, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

const (
	loadWord  = uint16(unix.BPF_LD | unix.BPF_W | unix.BPF_ABS)
	ifEqual   = uint16(unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K)
	ifHasBits = uint16(unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K)
	answer    = uint16(unix.BPF_RET | unix.BPF_K)
)

// instructions fall through where the call is another one, or passes.
func (r refusal) instructions() []unix.SockFilter {
	refuse := unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | r.Errno}
	load := unix.SockFilter{Code: loadWord, K: seccompCall}
	argument := unix.SockFilter{Code: loadWord, K: seccompArgument}
	switch {
	case r.Except != 0:
		return []unix.SockFilter{load, {Code: ifEqual, K: r.Call, Jf: 3}, argument, {Code: ifEqual, K: r.Except, Jt: 1}, refuse}
	case r.Only != 0:
		return []unix.SockFilter{load, {Code: ifEqual, K: r.Call, Jf: 3}, argument, {Code: ifHasBits, K: r.Only, Jf: 1}, refuse}
	}
	return []unix.SockFilter{load, {Code: ifEqual, K: r.Call, Jf: 1}, refuse}
}
