//go:build linux

package scope

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
)

// unanswered: the supervisor is stopped, or slow. A member may have stopped it.
func (l *launcher) unanswered() {
	stopped := l.group.supervisorStopped()
	if l.waiting[0].Type == sayStart {
		// however slow it starts, there is nothing to take over yet; and whoever
		// stopped it knows of nothing that ends the server
		if stopped {
			l.group.wakeSupervisor()
			l.patience--
		}
	} else if l.patience--; stopped {
		l.patience = 0
	}
	if l.patience > 0 {
		l.answer.Reset(answerWithin)
		return
	}
	l.takeOver()
}

// overdue: the supervisor has answered, and by now should have acted. A member may have
// stopped it in between; a word of ours would wake it, for as long as the member likes.
func (l *launcher) overdue() {
	if !l.group.supervisorStopped() {
		l.say(message{Type: sayLook})
		return
	}
	l.takeOver()
	switch {
	case l.alone == nil: // it is tried again
	case l.asked:
		l.alone.kill()
	default:
		l.alone.end(stopRequested)
	}
}

// promised notes by when the supervisor will have acted.
func (l *launcher) promised(m message) {
	l.due.Stop()
	l.asked = m.Asked
	if m.Due == 0 && l.client.open() {
		l.client.watchAgain() // it was none: a FIFO that has got another writer
	}
	if m.Due > 0 && l.alone == nil {
		l.due.Reset(time.Duration(m.Due) + answerWithin)
	}
}

// takeOver makes us the one who ends the server.
func (l *launcher) takeOver() {
	if l.alone != nil {
		return
	}
	alone, err := newCourse(l.server.Policy, l.group.members(), l.client)
	if err != nil {
		l.due.Reset(answerWithin) // out of descriptors or memory: try again
		return
	}
	l.alone = alone
	l.due.Stop()
	_ = l.control.send(message{Type: sayTakeover})
	l.group.wakeSupervisor()
	for _, m := range l.waiting {
		if m.Type == saySignal {
			l.forward(unix.Signal(m.Signal))
		}
	}
	l.catchUp()
}

// catchUp tells our own course all that has happened so far.
func (l *launcher) catchUp() {
	if l.client.dead() && l.client.pidfd >= 0 {
		l.alone.clientDied()
	}
	if l.client.stdin.Fired() {
		l.alone.hungUp(stdinClosed)
	}
	if l.client.stdout.Fired() {
		l.alone.hungUp(stdoutClosed)
	}
	if poll.Ended(l.client.main) {
		l.alone.end(mainExited)
	}
}

// finishAlone: the payload is gone. Only the supervisor can say how the main process
// ended; it is waited for, for a bounded time.
func (l *launcher) finishAlone() (Outcome, error) {
	l.group.wakeSupervisor()
	deadline := time.After(reportWithin)
	again := time.NewTicker(answerWithin) // whoever stopped it may do so again, from outside the group
	defer again.Stop()
	for {
		select {
		case t := <-l.loop.C:
			if t != tokenControl {
				continue
			}
			if done, err := l.hear(); done {
				return l.outcome(), err
			}
		case <-l.chld:
			reapAll(func(int, unix.WaitStatus) {})
		case <-again.C:
			l.group.wakeSupervisor()
		case <-deadline:
			l.group.killSupervisor()
			return l.outcome(), l.bereaved()
		}
	}
}

func (l *launcher) outcome() Outcome {
	if l.final == nil {
		return Outcome{Cause: supervisorGone}
	}
	o := Outcome{Cause: l.final.Cause, Notes: l.final.Notes, Stuck: l.final.Stuck}
	if l.final.Status != nil {
		o.Status, o.Known = unix.WaitStatus(*l.final.Status), true
	}
	return o
}
