// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Bytes that a brain sends. The guard sends WordLook alone.
const (
	WordLook    = 1   // Page.Due or the answer to a question is new
	WordGo      = 2   // the group is there, and comes with it
	WordDone    = 3   // the group is removed
	WordReady   = 4   // a watcher answers from now on
	WordForward = 128 // and above: a signal for the main process
)

// Guard is the guard as a brain has it.
type Guard struct {
	Page  *Page
	Sock  int // readable when there is something new on the page, and at the guard's death: see Drain
	PIDFD int
}

// Attach is for a later brain, with the page and the socket of its arguments. It makes the calling process
// undumpable.
func Attach(p *Page, sock int) (*Guard, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	for _, fd := range append(p.Descriptors(), p.memory, p.Payload) {
		if fd >= 0 {
			unix.CloseOnExec(int(fd))
		}
	}
	unix.CloseOnExec(sock)
	parent := unix.Getppid()
	pidfd, err := unix.PidfdOpen(parent, 0)
	if err != nil || parent != int(p.GuardPID) || unix.Getppid() != parent {
		_ = unix.Close(pidfd)
		return nil, fmt.Errorf("find the guard: %w", unix.ESRCH)
	}
	g := &Guard{p, sock, pidfd}
	g.Look()
	return g, nil
}

// Go starts the main process in payload, whose lock the guard shares from then on; -1 in a tree. A leaf other
// than -1 is where the guard moves afterwards. Page.FailedStep is final with the first byte; MainPID may be
// there earlier.
func (g *Guard) Go(payload, leaf int) error {
	var rights []byte
	switch {
	case leaf >= 0:
		rights = unix.UnixRights(payload, leaf)
	case payload >= 0:
		rights = unix.UnixRights(payload)
	}
	if err := unix.Sendmsg(g.Sock, []byte{WordGo}, rights, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("start the server: the guard: %w", err)
	}
	return nil
}

// Drain reads Sock, and answers the guard, which asks whether the brain reacts. dead: the guard is.
func (g *Guard) Drain() (dead bool) {
	var words [64]byte
	for {
		n, _, err := unix.Recvfrom(g.Sock, words[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil || n == 0:
			return true
		}
		if g.Page.Answered != g.Page.Asked {
			g.Look()
		}
		if n < len(words) {
			return false
		}
	}
}

// Look announces a change of Page.Due, and is a sign of life.
func (g *Guard) Look() {
	g.Page.Answered = g.Page.Asked
	g.send(WordLook)
}

// Forward sends a signal to the main process through the guard, which reaps it: to others its pid may be
// another process's.
func (g *Guard) Forward(sig unix.Signal) { g.send(WordForward + byte(sig)) }

// Done ends the guard, after the group is removed.
func (g *Guard) Done() { g.send(WordDone) }

// Ready says that the watcher answers from now on.
func (g *Guard) Ready() { g.send(WordReady) }

// send does not wait: a full socket has news enough, and the guard's death is noticed otherwise. A member may
// have stopped the guard.
func (g *Guard) send(word byte) {
	_ = unix.PidfdSendSignal(g.PIDFD, unix.SIGCONT, nil, 0) // it has ended
	_ = unix.Sendto(g.Sock, []byte{word}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
}
