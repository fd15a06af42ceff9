// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// errSupervisor says that the supervisor was killed; the server has been ended.
var errSupervisor = errors.New("the supervisor was killed, so the server was ended")

// errGuard: the supervisor has ended the server while it could.
var errGuard = errors.New("the guard of the supervisor was killed, so the server was ended")

// receive takes in what the supervisor says.
func (l *launcher) receive() (done bool, err error) {
	all, closed := l.control.Pending()
	for _, m := range all {
		switch m.Type {
		case protocol.SayStarted:
			l.awaitNext()
			if err := l.Started(m.FDs); err != nil {
				if end := l.supervisorDied(); end != errSupervisor { // it says more: who is left
					err = errors.Join(err, end)
				}
				return true, err
			}
		case protocol.SayStopped:
			l.stopToo(unix.Signal(m.Signal))
		case protocol.SayFailed:
			l.abandon()
			return true, m.Failure(l.server.Path)
		case protocol.SayEnded:
			l.final = &m
			err := l.verify()
			if err == nil && m.Cause == protocol.SupervisorGone {
				err = errGuard // it is our failure, however the main process ended by that
			}
			return true, err
		}
	}
	if done, err := l.born(); done { // it has said why before it ended
		return true, err
	}
	if closed {
		return true, l.supervisorDied()
	}
	l.loop.Again(l.control.In, lifecycle.TokenControl)
	return false, nil
}

// verify believes in the supervisor's last word when the kernel says the same: a member
// may have taken from it what it takes to end a group, or its voice.
func (l *launcher) verify() error {
	if !group.Populated(l.group.Members()) {
		if len(l.final.Stuck) == 0 {
			l.awaitRemoval()
		} // otherwise it stays until they are gone, and removes the group then
		return nil
	}
	res, err := freeze.Stop{Target: l.group.Members()}.Run()
	if len(res.Stuck) > 0 {
		l.final.Stuck = []string{group.DescribeStuck(res.Stuck)} // of those that the supervisor named, who is left
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
		why = protocol.ErrUnheard
	}
	res, err, uncontained := l.endAll()
	r := report.New(l.group.Ident(), l.config.Name, l.config.Client, l.backend, l.config.Started, protocol.SupervisorGone)
	if len(res.Stuck) > 0 {
		r.Stuck = []string{group.DescribeStuck(res.Stuck)}
	}
	if l.hideArguments() {
		r.Tell(nil)
	}
	r.Write(l.server.Report)
	if err != nil {
		return fmt.Errorf("%w, but: %w", why, err)
	}
	if len(res.Stuck) > 0 {
		return fmt.Errorf("%w, but %s is left", why, group.DescribeStuck(res.Stuck))
	}
	if uncontained != nil {
		return fmt.Errorf("%w, but %w", why, uncontained)
	}
	return why
}

// endContainers is what the supervisor would have done, but at once, of a server that we have started.
func (l *launcher) endContainers() error {
	if l.child != nil || l.pidfd < 0 && l.birth == nil {
		return nil
	}
	return lifecycle.Contained{ID: l.group.Ident(), Argv: l.server.Argv, Env: l.server.Env}.End()
}
