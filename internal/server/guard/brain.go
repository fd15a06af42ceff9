// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Guard is the brain's side: the launcher's, or a later brain's.
type Guard struct {
	page  *Page
	sock  int
	pidfd int
}

// Attach is for a later brain, with the page and the socket of its arguments. It makes the calling process undumpable.
func Attach(page *Page, sock int) (*Guard, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	for _, fd := range append(page.descriptors(), page.memory, page.Payload) {
		if fd >= 0 {
			unix.CloseOnExec(int(fd))
		}
	}
	unix.CloseOnExec(sock)
	parent := unix.Getppid()
	pidfd, err := unix.PidfdOpen(parent, 0)
	if err != nil || parent != int(page.GuardPID) || unix.Getppid() != parent {
		_ = unix.Close(pidfd)
		return nil, fmt.Errorf("find the guard: %w", unix.ESRCH)
	}
	g := &Guard{page: page, sock: sock, pidfd: pidfd}
	g.Look()
	return g, nil
}

// Go starts the main process in payload, whose lock the guard shares from then on; -1 in a tree. A leaf other than -1 is where
// the guard moves afterwards. Page.FailedStep is final with the first byte; MainPID may be there earlier.
func (g *Guard) Go(payload, leaf int) error {
	if e := sendGo(int32(g.sock), int32(payload), int32(leaf)); e != 0 {
		return fmt.Errorf("start the server: the guard: %w", e)
	}
	return nil
}

// Sock is readable when there is something new on the page, and at the guard's death: see Drain.
func (g *Guard) Sock() int { return g.sock }

// Drain reads Sock, and answers the guard, which asks whether the brain reacts. dead: the guard is.
func (g *Guard) Drain() (dead bool) {
	var words [64]byte
	for {
		n, _, err := unix.Recvfrom(g.sock, words[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil || n == 0:
			return true
		}
		if g.page.answered != g.page.asked {
			g.Look()
		}
		if n < len(words) {
			return false
		}
	}
}

// PIDFD is the guard's.
func (g *Guard) PIDFD() int { return g.pidfd }

// Look announces a change of Page.Due, and is a sign of life.
func (g *Guard) Look() {
	g.page.answered = g.page.asked
	g.send(wordLook)
}

// Forward sends a signal to the main process through the guard, which reaps it: to others its pid may be another process's.
func (g *Guard) Forward(sig unix.Signal) { g.send(wordForward + byte(sig)) }

// Done ends the guard, after the group is removed.
func (g *Guard) Done() { g.send(wordDone) }

// send does not wait: a full socket has news enough, and the guard's death is noticed otherwise.
func (g *Guard) send(word byte) {
	_ = unix.Sendto(g.sock, []byte{word}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
