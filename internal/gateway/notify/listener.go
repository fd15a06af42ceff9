// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Request is struct seccomp_notif: a call that waits. It is in memory that survives a watcher.
type Request struct {
	id    uint64
	TID   uint32 // of the caller, 0 if it is in no pid namespace that we see
	Flags uint32
	Call  int32 // its number
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// Listener receives what the filter holds.
type Listener struct {
	fd   int
	free chan *Request
}

// Open takes over a listener, and memory for its requests. left are the requests there that a predecessor has
// received and not answered; they have to be answered like any others.
func Open(fd int, requests []Request) (l *Listener, left []*Request) {
	// Caller and answerer take turns, so one processor serves both better than two (Linux 6.6;
	// before, it is slower).
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd),
		unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP) // EINVAL before 6.6
	l = &Listener{fd: fd, free: make(chan *Request, len(requests))}
	for i := range requests {
		r := &requests[i]
		if l.Valid(r) {
			left = append(left, r)
		} else {
			l.free <- r
		}
	}
	return l, left
}

// Receive waits for a request. It is io.EOF when no process is left that has the filter.
func (l *Listener) Receive() (*Request, error) {
	r := <-l.free
	for {
		if err := l.awaitRequest(); err != nil {
			return nil, err
		}
		*r = Request{} // the kernel insists
		err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(r))
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT): // the caller was killed meanwhile
		default:
			return nil, fmt.Errorf("receive a notification: %w", err)
		}
	}
}

// awaitRequest polls before Receive does: the receiving call is not woken when the last process with the
// filter has exited (before Linux 6.12).
//
// Programs are often executed one after the other. So for a moment it waits without a word to the runtime,
// which would start a thread for the processor that it takes for idle: that is more than all else here. Not
// while others judge, who may need the only processor.
func (l *Listener) awaitRequest() error {
	fds := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
	if len(l.free) == cap(l.free)-1 {
		ts := unix.Timespec{Nsec: 3e6}
		polls := uintptr(unsafe.Pointer(&fds[0]))
		limit := uintptr(unsafe.Pointer(&ts))
		// After an error, too, it waits below.
		_, _, _ = unix.RawSyscall6(unix.SYS_PPOLL, polls, 1, limit, 0, 0, 0)
	}
	for fds[0].Revents == 0 {
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for a notification: %w", err)
		}
	}
	if fds[0].Revents&unix.POLLIN == 0 {
		return io.EOF
	}
	return nil
}

// Valid reports whether the caller still waits. Then the facts that were read from /proc before are those of
// the caller, and not of another process with its pid.
func (l *Listener) Valid(r *Request) bool {
	return r.id != 0 && l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&r.id)) == nil
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	id              uint64
	flags           uint32
	source          uint32
	descriptor      uint32
	descriptorFlags uint32 // O_CLOEXEC or 0
}

// ReplaceDescriptor gives the caller, which still waits, a copy of source in the place of its descriptor fd,
// whether that is open or not. The copy stays open over execve.
func (l *Listener) ReplaceDescriptor(r *Request, fd, source int) error {
	const set = unix.SECCOMP_ADDFD_FLAG_SETFD
	added := addition{id: r.id, flags: set, source: uint32(source), descriptor: uint32(fd)}
	for {
		err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&added))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Continue lets the call go on. r is not to be used any more.
func (l *Listener) Continue(r *Request) {
	l.answer(r, response{flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Refuse has the call fail with EPERM. r is not to be used any more.
func (l *Listener) Refuse(r *Request) { l.answer(r, response{errno: -int32(unix.EPERM)}) }

func (l *Listener) answer(r *Request, with response) {
	with.id = r.id
	for {
		err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&with))
		if !errors.Is(err, unix.EINTR) {
			break // ENOENT: the caller was killed
		}
	}
	*r = Request{}
	l.free <- r
}

func (l *Listener) ioctl(command uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), command, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// Serve answers the requests that another watcher has left, and all others until no process is left that has
// the filter.
func (l *Listener) Serve(left []*Request, answer func(*Request)) error {
	for _, r := range left {
		answer(r)
	}
	for {
		r, err := l.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer(r)
	}
}
