// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif: a thread waits in a system call.
type notification struct {
	ID    uint64
	TID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

func listenerCall(fd int, request uintptr, arg unsafe.Pointer) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return os.NewSyscallError("ioctl", errno)
		}
	}
}

// receive takes the next call. over says that nobody is left who could make one: a filter
// ends with the last task that has it. wake ends the wait.
func receive(fd, wake int) (n notification, over bool, err error) {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return n, true, os.NewSyscallError("poll", err)
		}
		switch {
		case fds[0].Revents&unix.POLLIN != 0:
			n = notification{} // the kernel insists on zeros
			err := listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
			if errors.Is(err, unix.ENOENT) {
				continue // its thread was killed meanwhile
			}
			return n, false, err
		case fds[0].Revents != 0 || fds[1].Revents != 0:
			return n, true, nil
		}
	}
}

// goOn lets the call happen.
func (n notification) goOn(fd int) {
	a := answer{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	_ = listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // ENOENT: its thread was killed
}

// fail answers the call instead of the kernel.
func (n notification) fail(fd int, errno unix.Errno) {
	a := answer{ID: n.ID, Error: -int32(errno)}
	_ = listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // as above
}

// waits tells whether the thread still waits for the answer: then what was read of it in
// /proc was its own.
func (n notification) waits(fd int) bool {
	return listenerCall(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.ID)) == nil
}
