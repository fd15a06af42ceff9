//go:build linux

package scope

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
)

func isEmpty(s cgroup.State) bool { return !s.Populated }

// watch passes on what the client does until the supervisor says that nothing is
// left, and finishes alone where the supervisor can't.
func (l *launcher) watch() (Outcome, error) {
	if err := l.listen(); err != nil {
		l.abandon()
		return Outcome{}, err
	}
	for {
		select {
		case t := <-l.loop.C:
			if done, err := l.happened(t); done {
				return l.outcome(), err
			}
		case s := <-l.signals:
			l.caught(s.(unix.Signal))
		case <-l.chld:
			reapAll(func(int, unix.WaitStatus) {}) // as init, or where init does not
		case <-l.answer.C:
			l.unanswered()
		case <-l.due.C:
			l.overdue()
		case <-l.timer():
			l.alone.elapsed()
		case end := <-l.ladder():
			l.alone.climbed(end)
			return l.finishAlone()
		}
	}
}

func (l *launcher) listen() error {
	l.answer, l.due = stoppedTimer(), stoppedTimer()
	l.chld = newSignals()
	notify(l.chld, unix.SIGCHLD)
	if err := l.loop.add(l.control.in, tokenControl); err != nil {
		return err
	}
	go l.loop.run()
	l.expect(message{Type: sayStart})
	return nil
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

func (l *launcher) timer() <-chan time.Time {
	if l.alone == nil {
		return nil
	}
	return l.alone.timer.C
}

func (l *launcher) ladder() <-chan climbed {
	if l.alone == nil {
		return nil
	}
	return l.alone.ladder
}

// happened reacts to a descriptor. Whatever ends a server is noticed by the
// supervisor as well; it is asked whether it has, in case it was stopped.
func (l *launcher) happened(t token) (done bool, err error) {
	switch {
	case t == tokenControl:
		return l.hear()
	case t == tokenPeer:
		if done, err := l.hear(); done { // its last word may be here
			return done, err
		}
		return true, l.bereaved()
	case l.alone != nil:
		l.tell(l.alone, t)
	case t == tokenGuard:
		l.say(message{Type: sayLook})
	case t != tokenClient || l.server.Policy.OnClientDeath != IgnoreClientDeath:
		l.say(message{Type: sayLook})
	}
	return false, nil
}

// tell passes a token to a course of our own.
func (l *launcher) tell(c *course, t token) {
	switch t {
	case tokenStdin:
		c.hungUp(stdinClosed)
	case tokenStdout:
		c.hungUp(stdoutClosed)
	case tokenClient:
		c.clientDied()
	case tokenMain:
		c.end(mainExited)
	}
}

// caught takes a signal that we have got, alone or with our process group.
func (l *launcher) caught(sig unix.Signal) {
	if terminalStops(sig) {
		return // the main process has got it: see jobcontrol.go
	}
	if l.terminal && terminalSends(sig) {
		return // so has it this one; INT and QUIT are between it and the terminal
	}
	l.forward(sig)
}

func (l *launcher) forward(sig unix.Signal) {
	switch {
	case l.alone == nil:
		l.say(message{Type: saySignal, Signal: int(sig)})
	case endsServer(sig):
		l.alone.signalled(sig)
	case l.client.main >= 0:
		_ = unix.PidfdSendSignal(l.client.main, sig, nil, 0) // ESRCH: it has gone
	}
}
