//go:build linux

package scope

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/poll"
)

func isEmpty(s cgroup.State) bool { return !s.Populated }

// watch passes on what the client does until the supervisor says that nothing is left. The supervisor
// notices all of that by itself; a word to it also continues it if a member has stopped it. If it does not
// act in time, the launcher ends the server.
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
		case <-l.due.C:
			if done, err := l.overdue(); done {
				return l.outcome(), err
			}
		}
	}
}

func (l *launcher) listen() error {
	l.due = time.NewTimer(startedWithin)
	l.chld = newSignals()
	notify(l.chld, unix.SIGCHLD)
	if err := l.loop.add(l.control.in, tokenControl); err != nil {
		return err
	}
	go l.loop.run()
	return nil
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// happened reacts to a descriptor.
func (l *launcher) happened(t token) (done bool, err error) {
	switch t {
	case tokenControl:
		return l.hear()
	case tokenPeer:
		if done, err := l.hear(); done { // its last word may be here
			return done, err
		}
		return true, l.supervisorDied()
	case tokenClient:
		if l.server.Policy.OnClientDeath != IgnoreClientDeath {
			l.pass(message{Type: sayLook}, l.afterClientDeath())
		}
	case tokenStdin, tokenStdout:
		l.pass(message{Type: sayLook}, l.server.Policy.afterHangUp())
	default:
		l.pass(message{Type: sayLook}, l.server.Policy.afterStop())
	}
	return false, nil
}

// afterClientDeath: a client that has only passed on its stdin may die without ending anything.
func (l *launcher) afterClientDeath() time.Duration {
	in := l.client
	if in.hungUp() || in.conveyed && in.heldByNobodyBut(l.group.members()) || !in.conveyed {
		return l.server.Policy.afterStop()
	}
	return never
}

// caught takes a signal that we have got, alone or with our process group.
func (l *launcher) caught(sig unix.Signal) {
	switch {
	case terminalStops(sig): // the main process has got it: see jobcontrol.go
	case l.terminal && terminalSends(sig): // as well; INT and QUIT are between it and the terminal
	case endsServer(sig):
		l.asked = true
		l.pass(message{Type: saySignal, Signal: int(sig)}, l.server.Policy.afterStop())
	default:
		l.pass(message{Type: saySignal, Signal: int(sig)}, never)
	}
}

// pass sends the supervisor a word, and notes by when it must have acted on it. The word continues a supervisor
// that is stopped, but not one that is frozen, which systemd does with a whole scope.
func (l *launcher) pass(m message, within time.Duration) {
	_ = l.control.send(m) // a peer that is gone shows as EOF, one with a full queue as overdue
	if within != never {
		l.group.wakeSupervisor()
	}
	if at := time.Now().Add(within); within != never && (l.dueAt.IsZero() || at.Before(l.dueAt)) {
		l.dueAt = at
		l.due.Reset(within)
	}
}

// overdue: by now the supervisor should have said that the server runs, or have emptied the group. One that
// runs is slow; one that is stopped was stopped by a member, and may be so again and again.
func (l *launcher) overdue() (done bool, err error) {
	if l.pidfd < 0 { // nothing is there to be ended: whoever stopped it knows of nothing that would end it
		l.group.wakeSupervisor()
		l.due.Reset(startedWithin)
		return false, nil
	}
	if l.client.open() && l.reopened() {
		return false, nil
	}
	if l.extended++; l.extended > extendMost {
		return true, l.supervisorDied()
	}
	if l.group.supervisorStopped() {
		if populated(l.group.members()) {
			_, _ = freeze.Stop{Target: l.group.members()}.Run() // who is stuck the supervisor names
		}
		l.group.wakeSupervisor() // nothing is left but its report
	}
	l.due.Reset(extendBy)
	return false, nil
}

// reopened: it was no hang-up that the supervisor was told of, but a FIFO that has got another writer.
func (l *launcher) reopened() bool {
	if l.asked || l.client.dead() || poll.Ended(l.client.main) {
		return false
	}
	l.dueAt = time.Time{}
	l.client.watchAgain()
	return true
}

func (l *launcher) outcome() Outcome {
	if l.final == nil {
		return Outcome{}
	}
	o := Outcome{Notes: l.final.Notes, Stuck: l.final.Stuck}
	if l.final.Status != nil {
		o.Status, o.Known = unix.WaitStatus(*l.final.Status), true
	}
	return o
}
