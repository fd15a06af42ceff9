// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

type errnos []unix.Errno

// call has the facts of a system call.
type call struct {
	name   string
	errnos errnos // with which it may fail on a host under pressure, or one that forbids things
	about  int    // which argument is a path or, by fd, a descriptor, or none
}

const none = -1

// fd marks an argument that is a descriptor.
func fd(argument int) int { return 10 + argument }

// The errors of many calls.
var (
	opening  = errnos{unix.EMFILE, unix.ENOMEM, unix.EACCES, unix.ENOENT, unix.EINTR}
	looking  = errnos{unix.ENOMEM, unix.EACCES, unix.ENOENT}
	reading  = errnos{unix.EINTR, unix.ENOMEM, unix.EAGAIN}
	writing  = errnos{unix.EINTR, unix.ENOMEM, unix.EACCES, unix.EBUSY, unix.ENOSPC, unix.EAGAIN}
	changing = errnos{unix.EACCES, unix.EROFS, unix.ENOSPC, unix.ENOMEM, unix.EBUSY, unix.EAGAIN}
	making   = errnos{unix.EMFILE, unix.ENOMEM} // a descriptor of something new
	waiting  = errnos{unix.EINTR, unix.ENOMEM}
	forking  = errnos{unix.EAGAIN, unix.ENOMEM}
	telling  = errnos{unix.EAGAIN, unix.EINTR, unix.ENOMEM}
)

// calls has every call that mcpscope makes. Those without an error are points as well: guards
// are killed there.
var calls = map[uint32]call{
	unix.SYS_OPENAT:            {"openat", opening, 1},
	unix.SYS_READ:              {"read", reading, fd(0)},
	unix.SYS_PREAD64:           {"pread64", reading, fd(0)},
	unix.SYS_WRITE:             {"write", writing, fd(0)},
	unix.SYS_PWRITE64:          {"pwrite64", writing, fd(0)},
	unix.SYS_CLOSE:             {"close", nil, fd(0)},                                   // it closes whatever it says, which an answer instead of it would not
	unix.SYS_CLOSE_RANGE:       {"close_range", errnos{unix.ENOMEM, unix.EACCES}, none}, // a filter may refuse it
	unix.SYS_FSTAT:             {"fstat", errnos{unix.ENOMEM}, fd(0)},
	unix.SYS_NEWFSTATAT:        {"newfstatat", looking, 1},
	unix.SYS_STATX:             {"statx", looking, 1},
	unix.SYS_FSTATFS:           {"fstatfs", errnos{unix.EINTR, unix.ENOMEM}, fd(0)},
	unix.SYS_FACCESSAT:         {"faccessat", looking, 1},
	unix.SYS_FACCESSAT2:        {"faccessat2", looking, 1},
	unix.SYS_READLINKAT:        {"readlinkat", looking, 1},
	unix.SYS_GETCWD:            {"getcwd", looking, none},
	unix.SYS_GETDENTS64:        {"getdents64", errnos{unix.ENOENT, unix.EINTR, unix.ENOMEM}, fd(0)},
	unix.SYS_LSEEK:             {"lseek", nil, fd(0)},
	unix.SYS_FADVISE64:         {"fadvise64", nil, fd(0)},
	unix.SYS_FCNTL:             {"fcntl", errnos{unix.EMFILE, unix.EACCES}, fd(0)}, // F_DUPFD_CLOEXEC; the others hardly fail
	unix.SYS_DUP3:              {"dup3", errnos{unix.EINTR, unix.EBUSY}, fd(0)},
	unix.SYS_IOCTL:             {"ioctl", errnos{unix.EINTR}, fd(0)},
	unix.SYS_PIPE2:             {"pipe2", making, none},
	unix.SYS_MEMFD_CREATE:      {"memfd_create", making, none},
	unix.SYS_FTRUNCATE:         {"ftruncate", errnos{unix.ENOMEM}, fd(0)},
	unix.SYS_SIGNALFD4:         {"signalfd4", making, none},
	unix.SYS_SETSID:            {"setsid", nil, none},
	unix.SYS_EXECVEAT:          {"execveat", errnos{unix.ENOMEM, unix.EAGAIN}, none},
	unix.SYS_EVENTFD2:          {"eventfd2", making, none},
	unix.SYS_EPOLL_CREATE1:     {"epoll_create1", making, none},
	unix.SYS_EPOLL_CTL:         {"epoll_ctl", errnos{unix.ENOMEM, unix.ENOSPC}, fd(2)},
	unix.SYS_TIMERFD_CREATE:    {"timerfd_create", making, none},
	unix.SYS_TIMERFD_SETTIME:   {"timerfd_settime", nil, fd(0)},
	unix.SYS_TIMER_CREATE:      {"timer_create", forking, none},
	unix.SYS_TIMER_SETTIME:     {"timer_settime", nil, none},
	unix.SYS_TIMER_DELETE:      {"timer_delete", nil, none},
	unix.SYS_PPOLL:             {"ppoll", waiting, none},
	unix.SYS_SOCKET:            {"socket", making, none},
	unix.SYS_SOCKETPAIR:        {"socketpair", making, none},
	unix.SYS_BIND:              {"bind", errnos{unix.EACCES, unix.ENOMEM}, fd(0)},
	unix.SYS_LISTEN:            {"listen", nil, fd(0)},
	unix.SYS_ACCEPT4:           {"accept4", making, fd(0)},
	unix.SYS_CONNECT:           {"connect", errnos{unix.EACCES, unix.EAGAIN, unix.ENOENT}, fd(0)},
	unix.SYS_GETSOCKNAME:       {"getsockname", nil, none},
	unix.SYS_GETPEERNAME:       {"getpeername", nil, none},
	unix.SYS_GETSOCKOPT:        {"getsockopt", nil, fd(0)},
	unix.SYS_SETSOCKOPT:        {"setsockopt", errnos{unix.ENOMEM}, fd(0)},
	unix.SYS_SHUTDOWN:          {"shutdown", nil, none},
	unix.SYS_SENDMSG:           {"sendmsg", telling, fd(0)},
	unix.SYS_SENDTO:            {"sendto", telling, fd(0)},
	unix.SYS_RECVMSG:           {"recvmsg", reading, fd(0)},
	unix.SYS_RECVFROM:          {"recvfrom", reading, fd(0)},
	unix.SYS_CLONE:             {"clone", forking, none},
	unix.SYS_CLONE3:            {"clone3", errnos{unix.EAGAIN, unix.ENOMEM, unix.EBUSY, unix.EACCES}, none},
	unix.SYS_EXECVE:            {"execve", errnos{unix.ENOENT, unix.EACCES, unix.ENOMEM, unix.EAGAIN, unix.EMFILE}, 0},
	unix.SYS_EXIT_GROUP:        {"exit_group", nil, none},
	unix.SYS_WAIT4:             {"wait4", errnos{unix.EINTR}, none},
	unix.SYS_WAITID:            {"waitid", errnos{unix.EINTR}, none},
	unix.SYS_SETPGID:           {"setpgid", errnos{unix.EACCES}, none},
	unix.SYS_PRLIMIT64:         {"prlimit64", nil, none},
	unix.SYS_GETRLIMIT:         {"getrlimit", nil, none},
	unix.SYS_PRCTL:             {"prctl", nil, none},
	unix.SYS_PROCESS_VM_WRITEV: {"process_vm_writev", errnos{unix.EPERM, unix.ENOMEM}, none}, // a filter may refuse it
	unix.SYS_KILL:              {"kill", nil, none},
	unix.SYS_PIDFD_OPEN:        {"pidfd_open", making, none},
	unix.SYS_PIDFD_GETFD:       {"pidfd_getfd", making, none},
	unix.SYS_PIDFD_SEND_SIGNAL: {"pidfd_send_signal", forking, none},
	unix.SYS_SYSINFO:           {"sysinfo", nil, none},
	unix.SYS_GETRANDOM:         {"getrandom", errnos{unix.EINTR, unix.EAGAIN}, none},
	unix.SYS_MKDIRAT:           {"mkdirat", changing, 1},
	unix.SYS_UNLINKAT:          {"unlinkat", changing, 1},
	unix.SYS_FSETXATTR:         {"fsetxattr", changing, 1},
	unix.SYS_FREMOVEXATTR:      {"fremovexattr", changing, 1},
	unix.SYS_FGETXATTR:         {"fgetxattr", errnos{unix.ENOMEM, unix.EACCES}, 1},
	unix.SYS_FLOCK:             {"flock", errnos{unix.EINTR, unix.EAGAIN, unix.ENOMEM}, fd(0)},
}

func callOf(nr uint32) call {
	if c, known := calls[nr]; known {
		return c
	}
	return call{fmt.Sprint("call ", nr), nil, none}
}

// unknown: a call that the table does not have yet.
func (c call) unknown() bool { return len(c.name) > 5 && c.name[:5] == "call " }

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
	allow := ret(unix.SECCOMP_RET_ALLOW)
	notify := ret(unix.SECCOMP_RET_USER_NOTIF)
	all := []unix.SockFilter{load(seccompArch), jump(unix.BPF_JEQ, arch, 1, 0), allow, load(seccompCall)}
	var numbers []uint32
	if runtime.GOARCH == "amd64" {
		numbers = []uint32{158, 111, 201} // arch_prctl, getpgrp and time, which newer processors do without
	}
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
