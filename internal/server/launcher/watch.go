// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// watch passes on what the client does until the supervisor says that nothing is left. The supervisor
// notices all of that by itself; a word to it also continues it if a member has stopped it. If it does not
// act in time, the launcher ends the server.
func (l *launcher) watch() (Outcome, error) {
	if err := l.listen(); err != nil {
		l.abandon()
		return Outcome{}, err
	}
	for {
		done, err := l.handle(l.loop.Next(&l.due))
		if !done && l.due.Rings() {
			done, err = l.overdue()
		}
		if done {
			return l.outcome(), err
		}
	}
}

func (l *launcher) listen() error {
	l.due.Set(protocol.StartedWithin)
	_ = l.loop.Catch(unix.SIGCHLD) // others are caught already, so it can't fail
	if err := l.loop.Add(l.control.In, lifecycle.TokenControl); err != nil {
		return err
	}
	if l.birth != nil {
		if err := l.loop.Add(l.birth.FD(), lifecycle.TokenBirth); err != nil {
			return err
		}
	}
	return nil
}

// handle reacts to a descriptor, or to signals.
func (l *launcher) handle(t lifecycle.Token) (done bool, err error) {
	switch t {
	case lifecycle.TokenNone:
	case lifecycle.TokenSignals:
		for _, sig := range l.loop.Signals() {
			l.handleSignal(sig)
		}
	case lifecycle.TokenControl:
		return l.receive()
	case lifecycle.TokenBirth:
		return l.born()
	case lifecycle.TokenPeer:
		if done, err := l.receive(); done { // its last word may be here
			return done, err
		}
		return true, l.supervisorDied()
	case lifecycle.TokenClient:
		if l.server.Policy.OnClientDeath != protocol.IgnoreClientDeath {
			l.send(protocol.Message{Type: protocol.SayLook}, l.afterClientDeath())
		}
	case lifecycle.TokenStdin, lifecycle.TokenStdout:
		l.send(protocol.Message{Type: protocol.SayLook}, l.server.Policy.AfterHangUp())
	default:
		l.send(protocol.Message{Type: protocol.SayLook}, l.server.Policy.AfterStop())
	}
	return false, nil
}

// afterClientDeath: a client that has only passed on its stdin may die without ending anything.
func (l *launcher) afterClientDeath() time.Duration {
	in := l.client
	if in.HungUp() || in.Conveyed && in.HeldByNobodyBut(l.group.Members()) || !in.Conveyed {
		return l.server.Policy.AfterStop()
	}
	return protocol.Never
}

// handleSignal takes a signal that we have got, alone or with our process group.
func (l *launcher) handleSignal(sig unix.Signal) {
	switch {
	case sig == unix.SIGCHLD:
		lifecycle.ReapAll() // as init, or where init does not
	case terminalStops(sig): // the main process has got it: see jobcontrol.go
	case l.terminal && lifecycle.TerminalSends(sig): // as well; INT and QUIT are between it and the terminal
	case lifecycle.EndsServer(sig):
		l.asked = true
		l.send(protocol.Message{Type: protocol.SaySignal, Signal: int(sig)}, l.server.Policy.AfterStop())
	default:
		l.send(protocol.Message{Type: protocol.SaySignal, Signal: int(sig)}, protocol.Never)
	}
}

// send sends the supervisor a word, and notes by when it must have acted on it. The word continues a supervisor
// that is stopped, but not one that is frozen, which systemd does with a whole scope.
func (l *launcher) send(m protocol.Message, within time.Duration) {
	_ = l.control.Send(m) // a peer that is gone shows as EOF, one with a full queue as overdue
	if within != protocol.Never {
		l.group.WakeSupervisor()
	}
	if at := time.Now().Add(within); within != protocol.Never && (l.dueAt.IsZero() || at.Before(l.dueAt)) {
		l.dueAt = at
		l.due.Set(within)
	}
}

// awaitNext is for a supervisor that has said that the server runs: due is now only what was asked of it
// before it had. One that a member stops again and again may not have acted on that, and never will.
func (l *launcher) awaitNext() {
	if l.dueAt.IsZero() {
		l.due.Stop()
		return
	}
	l.due.Set(time.Until(l.dueAt))
}

// overdue: by now the supervisor should have said that the server runs, or have emptied the group. One that
// runs is slow; one that is stopped was stopped by a member, and may be so again and again.
func (l *launcher) overdue() (done bool, err error) {
	if l.starting(func() bool { return group.Populated(l.group.Members()) }) {
		l.group.WakeSupervisor()
		l.group.Adopt() // a member may keep it from ever saying that the server runs
		l.due.Set(protocol.StartedWithin)
		return false, nil
	}
	unborn := l.birth != nil && !l.bornSeen // it waits for the server to be executed, or a member holds it
	if !unborn && l.client.Open() && l.reopened() {
		return false, nil
	}
	if l.extended++; l.extended > protocol.ExtendMost || unborn && l.extended > 1 {
		return true, l.supervisorDied()
	}
	if unborn || l.group.SupervisorStopped() {
		if group.Populated(l.group.Members()) {
			_, _ = freeze.Stop{Target: l.group.Members()}.Run() // who is stuck the supervisor names
		}
		l.group.WakeSupervisor() // nothing is left but its report
	}
	l.due.Set(protocol.ExtendBy)
	return false, nil
}

// starting: nothing is there to be ended yet, as far as we know. A server that holds its supervisor in a ptrace stop
// keeps it from ever saying that the server runs; so what is due by then holds for one that has members.
func (l *launcher) starting(populated func() bool) bool {
	return l.pidfd < 0 && (l.dueAt.IsZero() || time.Now().Before(l.dueAt) || !populated())
}

// reopened: it was no hang-up that the supervisor was told of, but a FIFO that has got another writer.
func (l *launcher) reopened() bool {
	if l.asked || l.client.Dead() || linux.Ended(l.client.Main) {
		return false
	}
	l.dueAt = time.Time{}
	l.client.WatchAgain()
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
