//go:build linux

package scope

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
)

// errSupervisor says that the supervisor was killed; the server has been ended.
var errSupervisor = errors.New("the supervisor was killed, so the server was ended")

// errGuard: the supervisor has ended the server while it could.
var errGuard = errors.New("the guard of the supervisor was killed, so the server was ended")

// errUnheard: whether it was killed or failed, it could not say so.
var errUnheard = errors.New("the supervisor ended before it could say that the server runs")

// hear takes in what the supervisor says.
func (l *launcher) hear() (done bool, err error) {
	all, closed := l.control.pending()
	for _, m := range all {
		switch m.Type {
		case sayStarted:
			l.due.Stop()
			if err := l.started(m.fds); err != nil {
				if end := l.supervisorDied(); end != errSupervisor { // it says more: who is left
					err = errors.Join(err, end)
				}
				return true, err
			}
		case sayStopped:
			l.stopToo(unix.Signal(m.Signal))
		case sayFailed:
			l.abandon()
			return true, m.failure(l.server.Path)
		case sayEnded:
			l.final = &m
			err := l.verify()
			if err == nil && m.Cause == supervisorGone {
				err = errGuard // it is our failure, however the main process ended by that
			}
			return true, err
		}
	}
	if closed {
		return true, l.supervisorDied()
	}
	l.loop.again(l.control.in, tokenControl)
	return false, nil
}

// verify believes in the supervisor's last word when the kernel says the same: a member
// may have taken from it what it takes to end a group, or its voice.
func (l *launcher) verify() error {
	if !populated(l.group.members()) {
		if len(l.final.Stuck) == 0 {
			l.awaitRemoval()
		} // otherwise it stays until they are gone, and removes the group then
		return nil
	}
	res, err := freeze.Stop{Target: l.group.members()}.Run()
	if len(res.Stuck) > 0 {
		l.final.Stuck = []string{describeStuck(res.Stuck)} // of those that the supervisor named, who is left
		return err
	}
	if err != nil {
		return err
	}
	l.final.Stuck = nil
	l.removeGroup()
	return nil
}

// supervisorDied: it was killed. Nobody can say what is left of a grace, and
// whoever killed it may be a member: kill at once.
func (l *launcher) supervisorDied() error {
	why := errSupervisor
	if l.pidfd < 0 {
		why = errUnheard
	}
	res, err := l.group.endAll()
	l.removeGroup()
	r := newReport(l.group.ident(), l.config.Name, l.config.Client, l.backend, l.config.Started, supervisorGone)
	if l.server.Report >= 0 {
		r.write(l.server.Report)
	}
	if err != nil {
		return fmt.Errorf("%w, but: %w", why, err)
	}
	if len(res.Stuck) > 0 {
		return fmt.Errorf("%w, but %s is left", why, describeStuck(res.Stuck))
	}
	return why
}
