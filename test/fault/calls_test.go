// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"

	"golang.org/x/sys/unix"
)

type errnos []unix.Errno

// call is what there is to know of a system call.
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
	unix.SYS_GETDENTS64:        {"getdents64", errnos{unix.ENOENT, unix.EINTR, unix.ENOMEM}, fd(0)},
	unix.SYS_LSEEK:             {"lseek", nil, fd(0)},
	unix.SYS_FADVISE64:         {"fadvise64", nil, fd(0)},
	unix.SYS_FCNTL:             {"fcntl", errnos{unix.EMFILE, unix.EACCES}, fd(0)}, // F_DUPFD_CLOEXEC; the others hardly fail
	unix.SYS_DUP3:              {"dup3", errnos{unix.EINTR, unix.EBUSY}, fd(0)},
	unix.SYS_IOCTL:             {"ioctl", errnos{unix.EINTR}, fd(0)},
	unix.SYS_PIPE2:             {"pipe2", making, none},
	unix.SYS_MEMFD_CREATE:      {"memfd_create", making, none},
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
	if c, known := legacyCalls[nr]; known {
		return c
	}
	return call{fmt.Sprint("call ", nr), nil, none}
}

// unknown: a call that the table does not have yet.
func (c call) unknown() bool { return len(c.name) > 5 && c.name[:5] == "call " }
