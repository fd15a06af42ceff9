// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signals that a launcher reads: all but those of job control, which it blocks (to ignore them would be
// inherited by the server), and those of the C library, 32 and 33.
const (
	jobSignals  = 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)
	readSignals = ^uint64(jobSignals | 1<<(unix.SIGKILL-1) | 1<<(unix.SIGSTOP-1) | 1<<31 | 1<<32)
)

// ending are the signals by which a client ends a server: linux.Ending.
const ending = 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1) | 1<<(unix.SIGHUP-1) | 1<<(unix.SIGQUIT-1)

// ofTerminal are those that a terminal, or a shell's fg, sends to the main process, too: linux.OfTerminal.
const ofTerminal = 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGCONT-1)

// launcherSignals are the signals of a launcher: signal n is bit n-1.
type launcherSignals struct {
	fd      int32   // signalfd, or -1
	record  uintptr // bytes that are read for each signal, of which the first is the number
	mask    uint64  // those that the client blocks
	read    uint64
	ignores uint64 // SIGCHLD, if the client ignores it
	// continues is page.Continues of which the signals have come.
	continues uint32
	// terminal: those of a terminal go to the main process by themselves, and ^Z is the server's.
	terminal bool
}

// block blocks signals, so that from here on none ends the process.
func (s *launcherSignals) block() {
	all := uint64(readSignals | jobSignals)
	added, was := uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&s.mask))
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, added, was, 8, 0)
}

// take chooses those that are read. Of those that end a server the ones that the client ignores or blocks
// stay so: they would count as a request of a stop.
func (s *launcherSignals) take() {
	const ignored = 1 // SIG_IGN
	normal := [4]uint64{}
	action := [4]uint64{}
	to, at := uintptr(unsafe.Pointer(&normal)), uintptr(unsafe.Pointer(&action))
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), to, at, 8, 0) // ignored, it would hide the status
	if action[0] == ignored {
		s.ignores = 1 << (unix.SIGCHLD - 1)
	}
	s.read = readSignals
	for sig := uintptr(1); sig <= 64; sig++ {
		bit := uint64(1) << (sig - 1)
		if ending&bit == 0 {
			continue
		}
		sys(unix.SYS_RT_SIGACTION, sig, 0, at, 8, 0)
		if action[0] == ignored || s.mask&bit != 0 {
			s.read &^= bit
		}
	}
	now := s.launcherMask()
	setMask(&now, nil)
}

func (s *launcherSignals) launcherMask() uint64 { return s.mask | s.read | jobSignals }

// open has the signals reported by a descriptor.
func (s *launcherSignals) open() (e syscall.Errno) {
	const quiet = unix.SFD_CLOEXEC | unix.SFD_NONBLOCK
	at := uintptr(unsafe.Pointer(&s.read))
	n, e := sys(unix.SYS_SIGNALFD4, ^uintptr(0), at, 8, quiet, 0)
	s.fd = int32(n)                        // -1 for an error
	s.record = unsafe.Sizeof([16]uint64{}) // struct signalfd_siginfo
	return e
}

// receive reads what has come: each record begins with the number of a signal.
func (s *launcherSignals) receive(buf *[512]byte) (size uintptr) {
	n, e := sys(unix.SYS_READ, uintptr(s.fd), uintptr(unsafe.Pointer(buf)), unsafe.Sizeof(*buf), 0, 0)
	if e != 0 {
		return 0
	}
	return n
}

// leave is for main, which reports the end: it has the client's signals. Those that end a server mean nothing
// any more, since its status counts.
func (s *launcherSignals) leave() {
	const ignored = 1 // SIG_IGN
	for sig := uintptr(1); sig <= 64; sig++ {
		action := [4]uint64{ignored}
		if ending&(uint64(1)<<(sig-1)) != 0 {
			sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
		}
	}
	setMask(&s.mask, nil)
}

// stop stops the process by a signal of job control, which is blocked, until the shell continues it.
func (s *launcherSignals) stop(sig unix.Signal) {
	mask := s.launcherMask()
	open := mask &^ (1 << (uint64(sig-1) & 63))
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), uintptr(sig), 0, 0, 0)
	setMask(&open, nil) // it stops here
	setMask(&mask, nil)
}
