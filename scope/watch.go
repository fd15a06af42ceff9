//go:build linux

package scope

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/proc"
)

func isEmpty(s cgroup.State) bool { return !s.Populated }

// errSupervisor says that the supervisor was killed; the server has been ended.
var errSupervisor = errors.New("the supervisor was killed, so the server was ended")

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
	if err := l.loop.add(l.control.fd, tokenControl); err != nil {
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

func (l *launcher) ladder() <-chan freeze.Result {
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
	case t != tokenClient || l.server.Policy.OnClientDeath == StopOnClientDeath:
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

func (l *launcher) caught(sig unix.Signal) {
	if l.terminal && terminalSends(sig) {
		return // the main process has got it from the terminal, too
	}
	switch {
	case l.alone == nil:
		l.say(message{Type: saySignal, Signal: int(sig)})
	case endsServer(sig):
		l.alone.signalled(sig)
	case l.client.main >= 0:
		_ = unix.PidfdSendSignal(l.client.main, sig, nil, 0) // ESRCH: it has gone
	}
}

// say sends a message that wants an answer.
func (l *launcher) say(m message) {
	l.expect(m)
	_ = l.control.send(m) // a full queue or a dead peer shows as no answer or EOF
}

func (l *launcher) expect(m message) {
	l.waiting = append(l.waiting, m)
	if len(l.waiting) == 1 {
		l.patience = answerSlow
		l.answer.Reset(answerWithin)
	}
}

// answered: the oldest of what waits for an answer has got it.
func (l *launcher) answered() {
	l.answer.Stop()
	if len(l.waiting) > 0 {
		l.waiting = l.waiting[1:]
	}
	if len(l.waiting) > 0 {
		l.patience = answerSlow
		l.answer.Reset(answerWithin)
	}
}

// hear takes in what the supervisor says.
func (l *launcher) hear() (done bool, err error) {
	all, closed := l.control.pending()
	for _, m := range all {
		switch m.Type {
		case sayAnswer:
			l.answered()
			l.promised(m)
		case sayStarted:
			l.answered()
			if err := l.started(m.fds); err != nil {
				return true, errors.Join(err, l.bereaved())
			}
		case sayFailed:
			l.abandon()
			return true, m.failure(l.server.Path)
		case sayEnded:
			l.final = &m
			return true, l.verify()
		}
	}
	if closed {
		return true, l.bereaved()
	}
	l.loop.again(l.control.fd, tokenControl)
	return false, nil
}

// verify believes in the supervisor's last word when the kernel says the same: a member
// may have taken from it what it takes to end a group, or its voice.
func (l *launcher) verify() error {
	if !populated(l.group.payload) {
		if len(l.final.Stuck) == 0 {
			l.awaitRemoval()
		} // otherwise it stays until they are gone, and removes the group then
		return nil
	}
	res, err := freeze.Stop{Group: l.group.payload}.Run()
	if err != nil || len(res.Stuck) > 0 {
		l.final.Stuck = append(l.final.Stuck, describeStuck(res.Stuck))
		return err
	}
	l.final.Stuck = nil
	l.removeGroup()
	return nil
}

// bereaved: the supervisor was killed. Nobody can say what is left of a grace, and
// whoever killed it may be a member: kill at once.
func (l *launcher) bereaved() error {
	// all of the group: a member may have moved to the directory above the payload
	res, err := freeze.Stop{Group: l.group.top}.Run()
	l.removeGroup()
	if l.server.Report >= 0 {
		l.config.report(l.group.id, l.backend, supervisorGone).write(l.server.Report)
	}
	if err != nil {
		return fmt.Errorf("%w, but: %w", errSupervisor, err)
	}
	if len(res.Stuck) > 0 {
		return fmt.Errorf("%w, but %s is left", errSupervisor, describeStuck(res.Stuck))
	}
	return errSupervisor
}

// unanswered: the supervisor is stopped, or slow. A member may have stopped it.
func (l *launcher) unanswered() {
	stopped := l.supervisorStopped()
	if l.waiting[0].Type == sayStart {
		// however slow it starts, there is nothing to take over yet; and whoever
		// stopped it knows of nothing that ends the server
		if stopped {
			l.wakeSupervisor()
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
	if !l.supervisorStopped() {
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
	alone, err := newCourse(l.server.Policy, l.group.payload, l.client)
	if err != nil {
		l.due.Reset(answerWithin) // out of descriptors or memory: try again
		return
	}
	l.alone = alone
	l.due.Stop()
	_ = l.control.send(message{Type: sayTakeover})
	l.wakeSupervisor()
	for _, m := range l.waiting {
		if m.Type == saySignal {
			l.caught(unix.Signal(m.Signal))
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
	if ended(l.client.main) {
		l.alone.end(mainExited)
	}
}

// wakeSupervisor continues it, whether it was stopped or frozen.
func (l *launcher) wakeSupervisor() {
	_ = freeze.Thaw(l.group.supervisor)
	_ = l.group.top.SetFrozen(false) // gone, or never frozen: as good
	_, _ = freeze.Signal(l.group.supervisor, unix.SIGCONT)
}

func (l *launcher) supervisorStopped() bool {
	pids, err := l.group.supervisor.Members()
	if err != nil || len(pids) != 1 {
		return true // no supervisor where it belongs: not slow, at any rate
	}
	st, err := proc.ReadStat(pids[0])
	return err != nil || st.State == 'T' || st.State == 't'
}

// finishAlone: the payload is gone. Only the supervisor can say how the main process
// ended; it is waited for, for a bounded time.
func (l *launcher) finishAlone() (Outcome, error) {
	l.wakeSupervisor()
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
			l.wakeSupervisor()
		case <-deadline:
			_, _ = freeze.Kill(l.group.supervisor, supervisorGoneWithin)
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
