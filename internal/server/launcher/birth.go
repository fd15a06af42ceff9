// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/spawn"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// bearsFirst tells whether the server is born before its supervisor executes anything, which saves it the wait for that.
// It takes a group that there is already and that somebody can kill who stands by, and nothing that only a supervisor can
// do before the start: limits, and a stream of the journal.
func (l *launcher) bearsFirst() bool {
	if !spawn.CanPair || l.group == nil || len(l.config.Limits.Files) > 0 || l.config.Stderr == protocol.StderrJournal {
		return false
	}
	return l.group.Standby() != nil && l.group.Killable() && linux.Untraced()
}

// endsAlone tells whether a server that ends at once, and leaves nobody, needs no supervisor: there is nobody else to end.
func (l *launcher) endsAlone() bool {
	return !l.config.Replace && l.config.Engine() == "" && lifecycle.Uncontained(l.server.Argv) == ""
}

// bear starts the server, below a process that then becomes its supervisor.
func (l *launcher) bear(supervisor spawn.Cmd) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		null = -1 // then the supervisor keeps the client's, which a server hardly notices
	}
	defer unix.Close(null)
	if l.server.Report >= 0 {
		unix.CloseOnExec(l.server.Report) // it may be the client's, and is not the server's
	}
	<-l.reserved // a server that uses up all processes must not end us
	supervisor.Argv[protocol.MainArgument] = spawn.PIDDigits
	standby := l.group.Standby()
	pair := spawn.Pair{
		Parent: supervisor, PID: protocol.MainArgument, Null: null, Standby: standby,
		Main: lifecycle.MainCommand(l.config, l.group.Ident(), l.group.PayloadGroup(), l.server.Env),
		// with our own ends of the sockets: it could not see us die
		Release: append(slices.DeleteFunc(slices.Clone(l.server.Foreign), func(fd int) bool { return fd == l.server.Report }), l.control.In, l.control.Out),
		Wake:    l.config.ControlIn,
		Stop:    protocol.StopSignal,
	}
	if l.endsAlone() {
		pair.Linger = protocol.AtOnceWithin
	}
	standby.Birth()
	l.birth, err = pair.Start()
	return err
}

// born takes in what became of both. A failure ends everything.
func (l *launcher) born() (done bool, err error) {
	if l.birth == nil || l.bornSeen {
		return false, nil
	}
	known, ended, err := l.birth.Outcome()
	if !known {
		return false, nil
	}
	l.bornSeen = true
	l.birth.Close()
	if ended != nil {
		return true, l.endedAtOnce(*ended)
	}
	if err == nil {
		return false, nil
	}
	return true, l.unborn(err)
}

// endedAtOnce does what a supervisor would have done that was never executed.
func (l *launcher) endedAtOnce(ws unix.WaitStatus) error {
	status := int(ws)
	l.final = &protocol.Message{Type: protocol.SayEnded, Cause: report.ExitCause(ws, l.group.Figures()), Status: &status, Notes: l.notes}
	moved, err := freeze.Stop{Target: l.group.Tagged()}.Run() // by way of another pid namespace
	if len(moved.Stuck) > 0 {
		l.final.Stuck = []string{group.DescribeStuck(moved.Stuck)}
	}
	if err != nil {
		l.final.Notes = append(slices.Clone(l.notes), protocol.MovedUnknown+protocol.OneLine(err))
	}
	l.report(ws)
	err = l.verify()
	sweep.BeginSweep(l.group.Beside())()
	return err
}

// report writes the line, if one was asked for, and tells the journal.
func (l *launcher) report(ws unix.WaitStatus) {
	if !report.Wanted(l.server.Report) {
		return
	}
	r := report.New(l.group.Ident(), l.config.Name, l.config.Client, l.backend, l.config.Started, l.final.Cause)
	r.SetStatus(ws)
	r.Count(l.group.Members(), l.group.Figures())
	r.Stuck, r.Notes = l.final.Stuck, l.final.Notes
	if l.hideArguments() {
		report.TellStart(r.Subject(), protocol.StderrInherit)
		r.Tell(r.Notes)
	}
	r.Write(l.server.Report)
}

// hideArguments is for who is about to tell the journal, which takes down the command line of whoever tells it something. Ours has the
// server's arguments, which may be secrets. That of a gateway's watcher has none.
func (l *launcher) hideArguments() (hidden bool) {
	return l.child != nil || systemd.JournalExists() && linux.HideArguments(l.server.Argv[1:]) == nil
}

// unborn ends everything, since one of both could not be started.
func (l *launcher) unborn(err error) error {
	l.abandon()
	var start *spawn.StartError
	switch {
	case errors.Is(err, spawn.ErrParent):
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	case errors.As(err, &start) && start.Step == spawn.StepExec:
		return &protocol.CommandError{Command: l.server.Path, Errno: start.Errno}
	}
	return err
}

// endStandby returns when nobody stands by any more.
func (l *launcher) endStandby() {
	if l.group == nil {
		return
	}
	if standby := l.group.Standby(); standby != nil {
		standby.End(protocol.StandbyWithin)
	}
	if l.subreaper {
		lifecycle.ReapAll() // nobody else does
	}
}
