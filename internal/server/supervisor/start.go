// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/systemd"
)

// Limit makes the limits hold before there is a main process. It is for the supervisor to do: in
// a scope the group has processes of its own until that is in its leaf.
func (s *supervisor) Limit() error {
	var held []string
	for _, l := range s.config.Limits.Files {
		_, err := s.group.Limit(l, s.backend)
		switch {
		case err == nil:
			held = append(held, l.File)
		case !s.config.Limits.BestEffort:
			return err
		default:
			s.Note("not limited: " + protocol.OneLine(err))
		}
	}
	if len(held) > 0 {
		s.group.Limited(held)
	}
	return nil
}

// start arms the supervisor and only then starts the main process.
func (s *supervisor) start(at protocol.Message, foreign []int) error {
	if err := s.arm(at); err != nil {
		return err
	}
	env, err := protocol.ServerEnv() // which is not ours to read any more when tracers are kept off
	if err != nil {
		return err
	}
	if s.backend != protocol.Tree { // there others read the facts among our descriptors
		if err := lifecycle.KeepTracersOff(); err != nil {
			return err
		}
	}
	if s.config.Engine() != "" {
		s.env = env
	}
	s.config.SayReady()
	if err := s.startMain(env, at.Place.Stderr); err != nil {
		return err
	}
	return s.Started(foreign)
}

// Started: the server runs, or is about to.
func (s *supervisor) Started(foreign []int) error {
	s.closeClientDescriptors(foreign)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil && !s.found() {
		s.client.Main, err = unix.PidfdOpen(s.main, 0) // unreaped, so it is the one
	}
	if err != nil {
		_, _ = freeze.Stop{Target: s.group.Members()}.Run()
		return fmt.Errorf("open pidfd: %w", err)
	}
	// a launcher that is gone already shows as EOF
	pidfds := []int{self, s.client.Main}
	if guard := s.group.Guard(); guard >= 0 {
		pidfds = append(pidfds, guard)
	}
	_ = s.control.Send(protocol.Message{Type: protocol.SayStarted}, pidfds...)
	_ = unix.Close(self) // the launcher has it
	// Not before the start, which it would delay by 0.5 ms: a server that uses up all
	// processes meanwhile ends this one, and the launcher then ends the server.
	lifecycle.ReserveThreads()
	s.logStart()
	return nil
}

func (s *supervisor) arm(at protocol.Message) error {
	c := s.config
	var err error
	// what moves itself out of the group comes home as our child when its parent dies
	if err = lifecycle.BecomeSubreaper(); err != nil {
		return err
	}
	if s.group, err = s.adopt(at); err != nil {
		return err
	}
	s.backend, s.notes = at.Place.Backend, at.Place.Notes
	if note := lifecycle.Uncontained(s.config.Argv); note != "" {
		s.Note(note)
	}
	if err = s.Limit(); err != nil {
		return err
	}
	s.group.Note(s.notes)
	s.client = &lifecycle.ClientSide{
		Stdin: linux.WatchFromFD(c.Stdin), Input: linux.WatchFromFD(c.Input), Stdout: linux.WatchFromFD(c.Stdout),
		File: c.StdinFile, Answers: c.StdoutFile, Conveyed: c.Conveyed, Where: c.Where, Tag: group.TagOf(s.group.Ident()), PIDFD: c.ClientPidfd, Main: c.Main, Sure: s.found(),
	}
	// at once: whoever has stopped us may do so again before the event is handled
	s.loop.HungUp = func(t lifecycle.Token) {
		if t == lifecycle.TokenControl {
			lifecycle.StayAwake(c.Policy.TermGrace)
		}
	}
	if err = s.client.Watch(s.loop); err != nil {
		return err
	}
	if err = s.loop.Add(c.ControlIn, lifecycle.TokenControl); err != nil {
		return err
	}
	if err = s.loop.Add(c.Launcher, lifecycle.TokenPeer); err != nil {
		return err
	}
	if err = s.loop.Add(s.group.Guard(), lifecycle.TokenGuard); err != nil {
		return err
	}
	if err = s.loop.Add(c.Main, lifecycle.TokenMain); err != nil {
		return err
	}
	gone, err := lifecycle.ContinuedBy(c.ControlIn)
	if err != nil {
		return err
	}
	if gone { // and who stands by leaves it to us in a moment
		s.loop.HungUp(lifecycle.TokenControl)
	}
	s.lifecycle, err = lifecycle.New(c.Policy, s.group.Members(), s.client)
	if err != nil {
		return err
	}
	if lifecycle.EndsFirst(c.Engine()) && !s.found() && s.backend != protocol.Tree { // there everybody is a member, the engine's program too
		s.lifecycle.Beside = protocol.EngineWithin
	}
	if s.wantsDetails() || systemd.JournalExists() {
		s.lifecycle.Inspect = s.inspect
	}
	return nil
}

func (s *supervisor) adopt(at protocol.Message) (group.Owned, error) {
	if at.Place.Backend == protocol.Tree {
		return backend.AdoptTree(at.Place, s.config)
	}
	g, err := group.AdoptGroup(at.FDs[0], at.Place)
	if err == nil && g.LeftToManager() && !s.found() {
		g.CountMemory(at.Place.Backend) // groups of other backends were empty until now, which is cheaper
	}
	return g, err
}

// startMain starts the main process, unless it was born first. had is what one that was found has as stderr.
func (s *supervisor) startMain(env []string, had protocol.Stderr) error {
	if s.found() {
		s.stderr = had
		s.main, _ = proc.PIDOf(s.config.Main) // it may have ended, which the pidfd tells
		s.tagMembers()
		return nil
	}
	if s.main > 0 {
		s.stderr = protocol.StderrInherit
		return nil
	}
	s.connectStderr()
	cmd := lifecycle.MainCommand(s.config, s.group.Ident(), s.group.PayloadGroup(), env)
	var err error
	s.main, err = cmd.Start()
	return err
}

// closeClientDescriptors closes everything that is the client's.
func (s *supervisor) closeClientDescriptors(foreign []int) {
	_ = linux.ReplaceByNull(0, 1, 2)
	ours := s.config.Inherited()
	for _, fd := range foreign {
		if !slices.Contains(ours, fd) {
			_ = unix.Close(fd) // it was a copy
		}
	}
}
