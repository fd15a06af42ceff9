//go:build linux

package spawn

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sentinel is a copy of this process, in the same process group, that tells which signals it
// gets: a byte for each on Socket, and 0 for an answer to each message on it, after all that was
// sent before that. It ends when the other end of Socket is closed. All signals are blocked in it,
// which a Go program can't have: so the kernel has them pending as soon as they are sent, however
// little of a processor it gets.
type Sentinel struct {
	Socket  int    // of type SOCK_SEQPACKET
	Signals uint64 // of which it tells, by their bits
}

// watch is what the copy needs, made before the fork.
type watch struct {
	socket, signals int
	most            uintptr // no descriptor has a higher number
	all             uint64
	fds             [2]unix.PollFd
	info            unix.SignalfdSiginfo
	said            [128]byte
	name            [16]byte
}

// Start starts the copy. Whoever reaps children reaps it.
func (s *Sentinel) Start() error {
	set := [unsafe.Sizeof(unix.Sigset_t{}) / 8]uint64{s.Signals}
	fd, err := unix.Signalfd(-1, (*unix.Sigset_t)(unsafe.Pointer(&set)), unix.SFD_CLOEXEC|unix.SFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("create signalfd: %w", err)
	}
	defer unix.Close(fd)
	w := &watch{socket: s.Socket, signals: fd, most: 4096, all: ^uint64(0), name: [16]byte{'s', 'e', 'n', 't', 'i', 'n', 'e', 'l'}}
	w.fds = [2]unix.PollFd{{Fd: int32(s.Socket), Events: unix.POLLIN}, {Fd: int32(fd), Events: unix.POLLIN}}
	return startCopy(func() syscall.Errno { return forkSentinel(w) })
}

// forkSentinel comes back in the caller alone. In the child all signals stay blocked.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkSentinel(w *watch) syscall.Errno {
	beforeFork()
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return errno
	}
	stand(w)
	return 0 // not reached
}

//go:nosplit
//go:norace
func stand(w *watch) {
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&w.all)), 0, 8, 0, 0)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&w.name)), 0)
	low, high := uintptr(w.socket), uintptr(w.signals)
	if low > high {
		low, high = high, low
	}
	closeAll(w, 0, low)
	closeAll(w, low+1, high)
	closeAll(w, high+1, ^uintptr(0))
	for n, question := uintptr(0), true; ; {
		if question {
			w.said[n] = 0
			n++
		}
		if n > 0 {
			_, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(w.socket), uintptr(unsafe.Pointer(&w.said)), n, unix.MSG_NOSIGNAL, 0, 0)
			if e != 0 {
				exit(0)
			}
		}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&w.fds)), 2, 0, 0, 0, 0)
		question = w.fds[0].Revents != 0
		if question {
			got, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(w.socket), uintptr(unsafe.Pointer(&w.said)), 1)
			if got != 1 || e != 0 {
				exit(0)
			}
		}
		for n = 0; n < uintptr(len(w.said))-1; n++ {
			got, _, e := syscall.RawSyscall(syscall.SYS_READ, uintptr(w.signals), uintptr(unsafe.Pointer(&w.info)), unsafe.Sizeof(w.info))
			if e != 0 || got != unsafe.Sizeof(w.info) {
				break
			}
			w.said[n] = byte(w.info.Signo)
		}
	}
}

// closeAll closes descriptors from first to end-1: they are the client's, and the server's to be.
//
//go:nosplit
//go:norace
func closeAll(w *watch, first, end uintptr) {
	if first >= end {
		return
	}
	_, _, e := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, end-1, 0) // Linux 5.9
	if e == 0 {
		return
	}
	for fd := first; fd < end && fd < w.most; fd++ {
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOSE, fd, 0, 0)
	}
}
