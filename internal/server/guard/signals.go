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

// ofTerminal are those that a terminal, or a shell's fg, sends to the whole foreground process group, and so
// to the main process itself. A signal does not show whether it was sent to the launcher alone, so on a
// terminal these never count as sent to the launcher.
const ofTerminal = 1<<(unix.SIGINT-1) | 1<<(unix.SIGQUIT-1) | 1<<(unix.SIGWINCH-1) | 1<<(unix.SIGCONT-1)

// ofRuntime are those that a Go runtime sends to its own threads, and those of a fault in its code or of a
// write that fails: the server must not get them.
const ofRuntime = 1<<(unix.SIGURG-1) | 1<<(unix.SIGPROF-1) | 1<<(unix.SIGSEGV-1) | 1<<(unix.SIGBUS-1) |
	1<<(unix.SIGFPE-1) | 1<<(unix.SIGILL-1) | 1<<(unix.SIGPIPE-1) | 1<<(unix.SIGXFSZ-1)

// ClientSignals are the signals that the client blocks and ignores. A server inherits both: signal n is
// bit n-1.
type ClientSignals struct{ Blocked, Ignored uint64 }

// Signals blocks the signals of a launcher, and reads them from a signalfd. Signal n is bit n-1 of a set.
type Signals struct {
	Client ClientSignals // as the client has set them
	fd     int32         // signalfd, or -1
	read   uint64
	// terminal: those of a terminal go to the main process by themselves, and ^Z is the server's.
	terminal bool
	// shared: the main process is in the process group of this one, and gets what the kernel sends to that.
	shared bool
	// onTerminal: there was a controlling terminal.
	onTerminal bool
}

// block blocks signals, and remembers those of the client.
func (s *Signals) block(all uint64) {
	added := uintptr(unsafe.Pointer(&all))
	was := uintptr(unsafe.Pointer(&s.Client.Blocked))
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, added, was, 8, 0)
	s.Client.Ignored = ignoredSignals()
}

func ignoredSignals() (all uint64) {
	action := [4]uint64{}
	addr := uintptr(unsafe.Pointer(&action))
	for sig := uintptr(1); sig <= 64; sig++ {
		sys(unix.SYS_RT_SIGACTION, sig, 0, addr, 8, 0)
		if action[0] == ignored {
			all |= 1 << (sig - 1)
		}
	}
	return all
}

const ignored = 1 // SIG_IGN

// The Go runtime has a handler for most signals. It would forget which ones the client ignores, drop some,
// and print a trace for others. If another thread has taken a signal when the launcher executes itself, that
// would be lost. So signals are blocked before the runtime starts. Those that are passed on stay so, and the
// launcher without a runtime reads them.

// Hold blocks signals before there is a Go runtime. The runtime keeps a client's block of SIGURG, by which it
// interrupts its own threads. One that is pending at the launcher's execve would be passed on to the server.
func (s *Signals) Hold() {
	s.block(readSignals &^ ofRuntime)
	interrupt := uint64(1 << (unix.SIGURG - 1))
	sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_UNBLOCK, uintptr(unsafe.Pointer(&interrupt)), 0, 8, 0)
}

// unblockedByRuntime are those that a Go runtime unblocks in all its threads.
const unblockedByRuntime = ending | 1<<(unix.SIGABRT-1) | 1<<(unix.SIGTRAP-1) | 1<<(unix.SIGSYS-1) |
	1<<(unix.SIGSTKFLT-1)

// Release replaces the handlers of a Go runtime that has started in a launcher or gateway. As long as there
// is no server, a signal ends the process at once. With a server that has ended (over) it means nothing:
// the status of that counts.
func (s *Signals) Release(over bool) {
	for sig := uintptr(1); sig <= 64; sig++ {
		bit := uint64(1) << (sig - 1)
		action := [4]uint64{} // SIG_DFL
		if over || (s.Client.Ignored|s.Client.Blocked)&bit != 0 {
			action[0] = ignored
		}
		if unblockedByRuntime&bit != 0 {
			sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
		}
	}
}

// Restore prepares the calling thread of a Go runtime for the execve of another program, which gets the
// signals as the client has set them: execve(2) resets handlers, and keeps what is ignored or blocked.
func (c ClientSignals) Restore() {
	for sig := uintptr(1); sig <= 64; sig++ {
		bit := uint64(1) << (sig - 1)
		action := [4]uint64{} // SIG_DFL
		if c.Ignored&bit != 0 {
			action[0] = ignored
		}
		if (c.Ignored|c.Blocked)&bit != 0 { // Release ignores some that the client blocks
			sys(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0)
		}
	}
	setMask(&c.Blocked, nil)
}

// ofTerminalNow returns the signals that this process has got from a terminal, and has not read. Its
// server has not got them, since it did not exist.
func ofTerminalNow() (pending uint64) {
	sys(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&pending)), 8, 0, 0, 0)
	return pending & (ofTerminal | 1<<(unix.SIGTSTP-1))
}

// openTerminal opens the controlling terminal, or returns -1 if there is none.
func openTerminal() int32 {
	terminal, e := openAt(unix.AT_FDCWD, "/dev/tty\x00", unix.O_NOCTTY|unix.O_NONBLOCK)
	if e != 0 {
		return -1
	}
	return terminal
}

// hasLostTerminal reports whether the controlling terminal is gone. A shell passes its SIGHUP on to its jobs
// then.
func (s *Signals) hasLostTerminal() bool {
	if !s.onTerminal {
		return false
	}
	terminal := openTerminal()
	closeFD(terminal)
	return terminal < 0
}

// isInForeground reports whether this process is in the foreground of that terminal. Its children may read
// from that, and from /dev/tty, only in the same process group.
func isInForeground(terminal int32) bool {
	foreground := int32(0)
	addr := uintptr(unsafe.Pointer(&foreground))
	_, e := sys(unix.SYS_IOCTL, uintptr(terminal), unix.TIOCGPGRP, addr, 0, 0)
	own, _ := sys(unix.SYS_GETPGID, 0, 0, 0, 0, 0)
	return e == 0 && uintptr(foreground) == own
}

// take chooses those that are read. Of those that end a server the ones that the client ignores or blocks
// stay so: they would count as a request of a stop.
func (s *Signals) take() {
	normal := [4]uint64{}
	to := uintptr(unsafe.Pointer(&normal))
	sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), to, 0, 8, 0) // ignored, it would hide the status
	s.read = readSignals &^ (ending & (s.Client.Ignored | s.Client.Blocked))
	now := s.launcherMask()
	setMask(&now, nil)
}

// restore undoes block and take.
func (s *Signals) restore() {
	action := [4]uint64{ignored}
	if s.Client.Ignored&(1<<(unix.SIGCHLD-1)) != 0 {
		sys(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0)
	}
	setMask(&s.Client.Blocked, nil)
}

func (s *Signals) launcherMask() uint64 { return s.Client.Blocked | s.read | jobSignals }

// signalfdRecord is the size of struct signalfd_siginfo.
const signalfdRecord = unsafe.Sizeof([16]uint64{})

// open has the signals reported by a descriptor.
func (s *Signals) open() (e syscall.Errno) {
	const quiet = unix.SFD_CLOEXEC | unix.SFD_NONBLOCK
	addr := uintptr(unsafe.Pointer(&s.read))
	n, e := sys(unix.SYS_SIGNALFD4, ^uintptr(0), addr, 8, quiet, 0)
	s.fd = int32(n) // -1 for an error
	return e
}

// receive reads what has come: each record begins with the number of a signal.
func (s *Signals) receive(buf *[512]byte) (size uintptr) {
	n, e := sys(unix.SYS_READ, uintptr(s.fd), uintptr(unsafe.Pointer(buf)), unsafe.Sizeof(*buf), 0, 0)
	if e != 0 {
		return 0
	}
	return n
}

// isOfRuntime reports whether a record is of the signal by which a Go runtime interrupts its own threads. One
// that has come when the launcher had blocked all signals for its execve is pending behind that.
func isOfRuntime(buf *[512]byte, at uintptr) bool {
	const byThread = ^uint32(5)    // SI_TKILL, which is -6
	const codeAt, senderAt = 8, 12 // struct signalfd_siginfo
	isInterrupt := wordAt(buf, at) == uint32(unix.SIGURG) && wordAt(buf, at+codeAt) == byThread
	return isInterrupt && wordAt(buf, at+senderAt) == uint32(unix.Getpid())
}

// isByKernel reports whether a record is of a signal that the kernel has sent, as for a key of a terminal.
func isByKernel(buf *[512]byte, at uintptr) bool {
	const byKernel, codeAt = 0x80, 8 // SI_KERNEL
	return wordAt(buf, at+codeAt) == byKernel
}

// The shell of a terminal knows the launcher alone. If ^Z stopped the launcher at once, the shell would take
// the terminal back while the server (top, less, an editor) still restores it. A server that ignores ^Z
// would be in the background. So the launcher stops only when the main process has stopped. Then the shell
// continues both: they are in one process group.

// stopToo stops the launcher on a terminal by the signal of job control that has stopped the main process,
// until the shell continues both. The signal is blocked; 0 is none.
func (s *Signals) stopToo(sig unix.Signal) {
	if sig == 0 || !s.terminal {
		return
	}
	mask := s.launcherMask()
	open := mask &^ (1 << (uint64(sig-1) & 63))
	sys(unix.SYS_KILL, uintptr(unix.Getpid()), uintptr(sig), 0, 0, 0)
	setMask(&open, nil) // it stops here
	setMask(&mask, nil)
}
