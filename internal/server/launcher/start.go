// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/signals"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// start has the guard start the server in a group of its own.
func (b *brain) start(s *Server) error {
	// before there is a server to pass them on to, so that none is lost
	if err := b.loop.Catch(slices.Concat(signals.Ending, signals.Early)...); err != nil {
		return err
	}
	if b.subreaper = !hierarchy.InitReaps(); b.subreaper {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // it can't fail (Linux 3.4)
	}
	var err error
	if b.config.Group.ID, err = protocol.NewID(); err != nil {
		return err
	}
	if b.config.Engine() != "" {
		b.env = s.Env
	}
	if err := b.acquire(s, func(p backend.Place) error { return b.settle(p, s) }); err != nil {
		return err
	}
	if note := container.Uncontained(s.Argv); note != "" {
		b.note(note)
	}
	if err := b.limit(s); err != nil {
		return err
	}
	b.group.Note(b.notes)
	b.config.Notes = b.notes
	if err := b.page.SetConfig(protocol.Encode(b.config)); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	b.publish()
	if b.terminal { // ^Z is the server's as soon as there is one; what the client ignores the guard has by now
		_ = b.loop.Catch(signals.JobControl...) // some signals are caught already, so it can't fail
	}
	if err := b.guard.Go(b.group.Directories()); err != nil {
		return err
	}
	b.leaveClient(s)
	return nil
}

// settle makes a group in a place, with its guard first: from then on the launcher's death leaves nothing.
func (b *brain) settle(p backend.Place, s *Server) error {
	leaf, parent, err := p.Leaf()
	if err != nil {
		return err
	}
	b.page.Leaf, b.page.Parent = -1, -1
	if leaf != nil {
		defer leaf.Close()
		b.page.Leaf, b.page.Parent = int32(leaf.FD()), int32(parent.FD())
	}
	if err := b.fork(s, p.Backend() == protocol.Tree); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrGuard, err)
	}
	of := group.Guarded{PID: int(b.page.GuardPID), PIDFD: b.guard.PIDFD()}
	if b.group, err = p.Group(backend.Wanted{Config: b.config, Guard: &of, PID: of.PID, Names: b.page.SetDirectories}); err != nil {
		b.dismiss()
	}
	return err
}

// fork starts the guard. Its descriptor 2 is the server's.
func (b *brain) fork(s *Server, readable bool) error {
	if s.Stderr == protocol.StderrJournal {
		defer b.connectStderr()()
	}
	var server *guard.Server
	if !b.config.Taken {
		server = b.mainProcess(s)
	}
	var err error
	b.guard, err = guard.Fork(b.page, server, &guard.Options{
		Name: protocol.GuardComm(b.config.Group.ID), Argv: protocol.SuperviseArgs(s.Name), Env: protocol.BrainEnv(s.Env), Readable: readable,
	})
	return err
}

// connectStderr makes our descriptor 2 the journal's, until restore is called.
func (b *brain) connectStderr() (restore func()) {
	fd, err := systemd.JournalStream(protocol.LogIdentifier(b.config.Name, b.config.Group.ID), systemd.Info)
	own := -1
	if err == nil {
		defer unix.Close(fd)
		if own, err = unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3); err == nil || errors.Is(err, unix.EBADF) {
			err = unix.Dup3(fd, 2, 0)
		}
	}
	if err != nil {
		b.note(protocol.StderrKept + err.Error())
		return func() {}
	}
	b.stderr = protocol.StderrJournal
	return func() {
		if own < 0 {
			_ = unix.Close(2) // it was closed
			return
		}
		_ = unix.Dup3(own, 2, 0) // it was open, so it can't fail
		_ = unix.Close(own)
	}
}

// dismiss ends a guard without a server, which removes what was made of a group.
func (b *brain) dismiss() {
	if b.guard == nil {
		return
	}
	_ = unix.Close(b.guard.Sock())
	linux.AwaitEnd(b.guard.PIDFD(), unix.POLLIN, protocol.ReactWithin)
	_ = unix.Close(b.guard.PIDFD())
	b.guard, b.group = nil, nil
	if b.subreaper {
		signals.ReapAll()
	}
}

// abandon undoes a start that failed.
func (b *brain) abandon() {
	if b.client != nil {
		b.client.Close() // that it failed may be for lack of descriptors
	}
	if b.group != nil {
		_ = b.group.Remove() // the guard tries as well, and a sweep
	}
	b.dismiss()
}

// limit makes the limits hold before there is a main process.
func (b *brain) limit(s *Server) error {
	var held []string
	for _, l := range s.Limits.Files {
		_, err := b.group.Limit(l, b.config.Group.Backend)
		switch {
		case err == nil:
			held = append(held, l.File)
		case !s.Limits.BestEffort:
			return err
		default:
			b.note("not limited: " + protocol.OneLine(err))
		}
	}
	if len(held) > 0 {
		b.group.Limited(held)
	}
	return nil
}

// leaveClient closes what is the server's own. Our stderr stays, for our own failures. From now on all signals are
// passed on: what the client ignores the server has by now.
func (b *brain) leaveClient(s *Server) {
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil { // otherwise they stay open, which a server hardly notices
		_, _ = unix.Dup3(null, 0, unix.O_CLOEXEC), unix.Dup3(null, 1, unix.O_CLOEXEC) // their numbers stay in use
		_ = unix.Close(null)
	}
	for _, fd := range s.Foreign {
		if fd != s.Report {
			_ = unix.Close(fd)
		}
	}
	_ = b.loop.Catch(append(signals.Forwarded(), unix.SIGCHLD)...) // some are caught already, so it can't fail
}

// started is for when there is a main process. Its exec may still fail.
func (b *brain) started() {
	b.openMain()
	b.group.Adopt()
	b.tellStart()
}

// tellStart is for everything that waits until the server runs.
func (b *brain) tellStart() {
	b.beginRest()
	if systemd.JournalExists() {
		report.LogStart(b.subject(), b.stderr)
	}
	b.finish = sweep.BeginSweep(b.group.Beside())
	if b.config.Replace {
		b.beside.Go(b.replaceOlder)
	}
}

// openMain is for the look at what the main process has not read or can't write.
func (b *brain) openMain() {
	fd, err := unix.PidfdOpen(int(b.page.MainPID), 0)
	if err != nil {
		return // it has ended
	}
	if parent := parentOf(int(b.page.MainPID)); parent != int(b.page.GuardPID) { // it has ended, and was reaped
		_ = unix.Close(fd)
		return
	}
	b.client.Main = fd
}
