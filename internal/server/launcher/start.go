// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// start has the guard start the server in a group of its own.
func (b *birth) start() error {
	s := b.server
	// before there is a server to pass them on to, so that none is lost
	if err := b.Loop.Catch(slices.Concat(linux.Ending, linux.Early)...); err != nil {
		return err
	}
	if b.Subreaper = !hierarchy.InitReaps(); b.Subreaper {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // it can't fail (Linux 3.4)
	}
	if b.Config.Engine != "" {
		b.Env = s.Env
	}
	if err := b.acquire(); err != nil {
		return err
	}
	if note := container.Uncontained(s.Argv); note != "" {
		b.Note(note)
	}
	if err := b.begin(); err != nil {
		return err
	}
	if b.Terminal { // ^Z is the server's from now on; what the client ignores the guard has by now
		_ = b.Loop.Catch(linux.JobControl...) // some signals are caught already, so it can't fail
	}
	if err := b.Guard.Go(b.Group.Directories()); err != nil {
		return err
	}
	b.leaveClient()
	return nil
}

// begin makes a brain of a group and its guard, and leaves all that to a later one.
func (b *birth) begin() error {
	b.Group.Note(b.Notes)
	b.Config.Notes = b.Notes
	if err := b.Page.SetConfig(protocol.Encode(b.Config)); err != nil {
		return err
	}
	if err := b.Begin(); err != nil {
		return err
	}
	b.Publish()
	return nil
}

// settle makes a group in a place, with its guard first: from then on the launcher's death leaves nothing.
func (b *birth) settle(p backend.Place) error {
	b.Page.Leaf, b.Page.Parent = -1, -1
	if p.Above != nil {
		leaf, err := group.Leaf(p.Above) // where the guard is born
		if err != nil {
			return err
		}
		defer leaf.Close()
		b.Page.Leaf, b.Page.Parent = int32(leaf.FD()), int32(p.Above.FD())
	}
	if err := b.fork(p.Backend == protocol.Tree); err != nil {
		return fmt.Errorf("%w: %w", errGuard, err)
	}
	wanted := backend.Wanted{Config: b.Config, Guard: b.Guarded(), Names: b.Page.SetDirectories}
	var err error
	if b.Group, err = p.Group(wanted); err != nil {
		b.dismiss()
	}
	return err
}

// fork starts the guard.
func (b *birth) fork(readable bool) error {
	s := b.server
	var server *guard.Server
	if !b.Config.Taken {
		server = b.mainProcess()
		if s.Stderr == protocol.StderrJournal {
			name := protocol.LogIdentifier(b.Config.Name, b.Config.Group.ID)
			if fd, err := systemd.JournalStream(name, systemd.Info); err == nil {
				defer unix.Close(fd)
				b.Stderr, server.Stderr = protocol.StderrJournal, fd
			} else {
				b.Note(protocol.StderrKept + err.Error())
			}
		}
	}
	var err error
	b.Guard, err = guard.Fork(b.Page, server, &guard.Options{
		Name: protocol.GuardComm(b.Config.Group.ID), Argv: protocol.SuperviseArgs(s.Name),
		Env: protocol.BrainEnv(s.Env), Readable: readable,
	})
	return err
}

// dismiss ends a guard without a server, which removes what was made of a group.
func (b *birth) dismiss() {
	if b.Guard == nil {
		return
	}
	_ = unix.Close(b.Guard.Sock)
	linux.AwaitEnd(b.Guard.PIDFD, unix.POLLIN, protocol.ReactWithin)
	_ = unix.Close(b.Guard.PIDFD)
	b.Guard = nil
	if b.Subreaper {
		linux.ReapAll()
	}
}

// abandon undoes a start that failed.
func (b *birth) abandon() {
	if b.Client != nil {
		b.Client.Close() // that it failed may be for lack of descriptors
	}
	if b.Group != nil {
		_ = b.Group.Remove() // the guard tries as well, and a sweep
	}
	b.dismiss()
}

// limit makes the limits hold before there is a main process.
func (b *birth) limit() error {
	var held []string
	for _, l := range b.server.Limits.Files {
		_, err := b.Group.Limit(l, b.Config.Group.Backend)
		switch {
		case err == nil:
			held = append(held, l.File)
		case !b.server.Limits.BestEffort:
			return err
		default:
			b.Note("not limited: " + protocol.OneLine(err))
		}
	}
	if len(held) > 0 {
		b.Group.Limited(held)
	}
	return nil
}

// leaveClient closes the descriptors that are the server's own. Our stderr stays, for our own failures. From
// now on all signals are passed on: by now the server ignores those that the client ignores.
func (b *birth) leaveClient() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil { // otherwise they stay open, which a server hardly notices
		// their numbers stay in use
		_, _ = unix.Dup3(null, 0, unix.O_CLOEXEC), unix.Dup3(null, 1, unix.O_CLOEXEC)
		_ = unix.Close(null)
	}
	for _, fd := range b.server.Foreign {
		if fd != b.server.Report {
			_ = unix.Close(fd)
		}
	}
	_ = b.Loop.Catch(linux.Late...) // it can't fail, as above
}
