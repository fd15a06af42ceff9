// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// leftOut are the calls that are no interaction with anything outside the process: they
// go on unseen.
var leftOut = map[string][]uint32{
	"the runtime's memory; it aborts when it gets none": {unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MREMAP},
	"threads of one process waiting for each other": {unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP,
		unix.SYS_RESTART_SYSCALL, unix.SYS_MEMBARRIER, unix.SYS_TGKILL, unix.SYS_EXIT},
	"the runtime's own poller and scheduler": {unix.SYS_EPOLL_PWAIT, unix.SYS_SCHED_GETAFFINITY},
	"which signals a thread or process catches": {unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
		unix.SYS_RT_SIGTIMEDWAIT},
	"questions that can't fail": {unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETPPID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID,
		unix.SYS_GETEGID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_UNAME, unix.SYS_CLOCK_GETTIME},
	"a thread's beginning": {unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ},
}

// Offsets in struct seccomp_data; of an argument the lower half.
const (
	seccompCall = 0
	seccompArch = 4
	seccompArg0 = 16
)

// stageSocket is the descriptor on which the stage sends the listener: see stage/stage.c.
const stageSocket = 1000

var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// filter reports every call to the listener but those that are left out, and new threads: a
// thread is no process, and the runtime aborts when it gets none, which is why mcpscope keeps
// some in reserve.
func filter(t *testing.T) []unix.SockFilter {
	t.Helper()
	arch, known := auditArch[runtime.GOARCH]
	if !known {
		t.Fatalf("no seccomp filter for %s", runtime.GOARCH)
	}
	allow, notify := ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_USER_NOTIF)
	all := []unix.SockFilter{load(seccompArch), jump(unix.BPF_JEQ, arch, 1, 0), allow, load(seccompCall)}
	numbers := append([]uint32(nil), legacyLeftOut...)
	for _, some := range leftOut {
		numbers = append(numbers, some...)
	}
	for _, nr := range numbers {
		all = append(all, jump(unix.BPF_JEQ, nr, 0, 1), allow)
	}
	return append(all,
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(seccompArg0), jump(unix.BPF_JSET, unix.CLONE_THREAD, 0, 1), allow,
		load(seccompCall), jump(unix.BPF_JEQ, unix.SYS_SENDMSG, 0, 3), load(seccompArg0), jump(unix.BPF_JEQ, stageSocket, 0, 1), allow,
		notify)
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

// filterText is the filter as the stage takes it.
func filterText(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	for _, f := range filter(t) {
		_ = binary.Write(&b, binary.NativeEndian, f) // a fixed size, into memory
	}
	return hex.EncodeToString(b.Bytes())
}
