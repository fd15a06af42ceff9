// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"slices"

	"golang.org/x/sys/unix"
)

func EndsServer(sig unix.Signal) bool { return slices.Contains(Ending, sig) }

// TerminalSends lists the signals that a terminal, or a shell's fg, sends to the whole foreground
// process group, and so to the main process itself. A signal does not show whether it was sent to
// the launcher alone, so on a terminal these never count as sent to the launcher.
func TerminalSends(sig unix.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGCONT:
		return true
	}
	return false
}

// Forwarded lists the signals that the launcher catches to pass on. Not caught are: KILL and
// STOP, which no process can catch; TSTP, TTIN and TTOU, which stop the launcher (see brain/perform.go); CHLD
// and URG, which the kernel and the Go runtime send; the signals of a fault in our
// own code; and 32 and 33, which the C library keeps for itself.
func Forwarded() []unix.Signal {
	var sigs []unix.Signal
	for s := unix.Signal(1); s <= 64; s++ {
		switch s {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGCHLD, unix.SIGURG,
			unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGSYS, unix.SIGTRAP, 32, 33:
			continue
		}
		sigs = append(sigs, s)
	}
	return sigs
}

// Ending are the signals by which a client ends a server.
var Ending = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}

// Early are the other signals that are likely to come in our first milliseconds: an alarm that the
// client set before its exec of mcpscope (alarm(2)), and signals that a client sends to a server it knows.
var Early = []unix.Signal{unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2}

// JobControl are the signals by which a terminal stops a process group.
var JobControl = []unix.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}

// OnTerminal reports whether descriptor 0 is our controlling terminal: then job
// control is the terminal's business.
func OnTerminal() bool {
	sid, err := unix.IoctlGetInt(0, unix.TIOCGSID)
	if err != nil {
		return false
	}
	own, err := unix.Getsid(0)
	return err == nil && own == sid
}

// ReapAll waits for every child that has ended.
func ReapAll() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
		if err != unix.EINTR && (err != nil || pid == 0) {
			return
		}
	}
}
