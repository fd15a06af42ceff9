// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// supervisor is the process that parents the main process, owns the group and ends
// it.
type supervisor struct {
	config    *protocol.Config
	control   protocol.Control
	group     group.Owned
	backend   protocol.Backend
	client    *lifecycle.ClientSide
	loop      *lifecycle.Loop
	lifecycle *lifecycle.Lifecycle

	main        int             // pid; no one else can wait for it, so it can't be reused
	status      unix.WaitStatus // once exited
	exited      bool
	beside      *cgroup.Group // the directory of its group and of others; nil if there is none
	swept       func()
	killed      []report.Killed
	killedTotal int
	env         []string      // the client's, for the engine that runs the server
	first       chan struct{} // closed when its containers have been ended before it is killed; nil if they are not
	undone      string        // what may be left of them
	notes       []string
	notesTold   int             // of them, to the journal
	stderr      protocol.Stderr // of the server, as it turned out
}

// Supervise is the whole life of a supervisor. memory is the descriptor of its
// configuration, pid the main process if that was born first (spawn.Pair), otherwise 0, foreign are the descriptors above
// 2 that it was started with. It returns the exit status, which nobody reads.
func Supervise(memory, pid int, foreign []int) int {
	protocol.NameProcess()
	c, err := protocol.ReadConfig(memory)
	if err != nil {
		return 125 // the launcher sees EOF on the control socket
	}
	s := &supervisor{config: c, control: protocol.NewEnd(c.ControlIn, c.ControlOut), main: pid}
	if err = lifecycle.ReadyTimers(); err == nil {
		s.loop, err = lifecycle.NewLoop()
	}
	if err == nil {
		// Caught, not ignored: that would be inherited by the payload.
		err = s.loop.Catch(unix.SIGCHLD, unix.SIGTERM, protocol.StopSignal, protocol.KillSignal, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	}
	if err != nil {
		s.failed(err)
		return 125
	}
	for _, fd := range c.Inherited() {
		unix.CloseOnExec(fd)
	}
	// its number may be another descriptor's by now
	foreign = slices.DeleteFunc(foreign, func(fd int) bool { return fd == memory })
	at, err := s.receivePlace()
	if err != nil {
		return 125 // the launcher has gone, or given up
	}
	if at.Place.Backend == protocol.Tree && c.Place == nil {
		return s.runGuard(at, foreign)
	}
	if err := s.start(at, foreign); err != nil {
		s.failed(err)
		return 125
	}
	s.run()
	s.finish()
	return 0
}

// failed tells the launcher why nothing was started.
func (s *supervisor) failed(err error) {
	m := protocol.Message{Type: protocol.SayFailed, Text: err.Error()}
	m.Text = m.Text[:min(len(m.Text), 1024)] // it has to fit a message
	var limit *protocol.LimitError
	if errors.As(err, &limit) {
		m.Limit, m.Hint = true, limit.Step
	}
	var step *spawn.StartError
	if errors.As(err, &step) && !errors.Is(err, protocol.ErrSpawn) { // that is about ourselves, not about the server
		m.Step = uint32(step.Step)
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		m.Errno = int(errno)
	}
	_ = s.control.Send(m) // without a launcher there is nobody to tell
}

// receivePlace waits for the launcher to say where the group is, unless that was known when we were started.
func (s *supervisor) receivePlace() (protocol.Message, error) {
	if s.config.Place != nil {
		return protocol.Message{Type: protocol.SayPlace, Place: s.config.Place, FDs: []int{s.config.Payload}}, nil
	}
	m, err := s.control.Receive(0)
	if err == nil && (m.Type != protocol.SayPlace || m.Place == nil || m.Place.Backend != protocol.Tree && len(m.FDs) != 1) {
		err = fmt.Errorf("expected to be told the place, got %q", m.Type)
	}
	return m, err
}

// found tells whether the client has started the main process, so that we did not.
func (s *supervisor) found() bool { return s.config.Main >= 0 }

// run lasts until the payload is gone, or can't be made to go.
func (s *supervisor) run() {
	s.reap()
	var own string
	s.beside, own = s.group.Beside()
	s.swept = sweep.BeginSweep(s.beside, own)
	if s.config.Replace {
		go s.replaceOlder()
	}
	limits := lifecycle.NewLimits(s.config.Policy)
	told := false
	for s.lifecycle.Phase != lifecycle.Stopped {
		s.handle(s.loop.Next(&limits.Alarm, &s.lifecycle.Alarm))
		if limits.Alarm.Rings() {
			limits.Elapsed(s.lifecycle)
		}
		if s.lifecycle.Alarm.Rings() {
			s.lifecycle.Elapsed()
		}
		select {
		case end := <-s.lifecycle.Ladder:
			s.lifecycle.Climbed(end)
			s.addKilled(end.Seen)
		default:
		}
		if !told && s.lifecycle.Phase >= lifecycle.Stopping {
			told = true
			s.group.Ending(s.lifecycle.Cause)
		}
		if told {
			s.endContainersFirst()
		}
	}
}

func (s *supervisor) handle(t lifecycle.Token) {
	switch t {
	case lifecycle.TokenSignals:
		for _, sig := range slices.Compact(s.loop.Signals()) { // a thousand children that end at once are waited for together
			s.handleSignal(sig)
		}
	case lifecycle.TokenStdin:
		s.lifecycle.HungUp(protocol.StdinClosed)
	case lifecycle.TokenStdout:
		s.lifecycle.HungUp(protocol.StdoutClosed)
	case lifecycle.TokenClient:
		s.lifecycle.ClientDied()
	case lifecycle.TokenMain:
		s.mainEnded()
	case lifecycle.TokenControl:
		s.receive()
	case lifecycle.TokenPeer:
		s.receive()
		s.launcherDied()
	case lifecycle.TokenGuard:
		s.unguarded()
	}
}

// receive takes in what the launcher says.
func (s *supervisor) receive() {
	all, closed := s.control.Pending()
	for _, m := range all {
		if m.Type == protocol.SaySignal {
			s.forward(unix.Signal(m.Signal))
		}
	}
	if len(all) > 0 {
		s.look()
	}
	if closed && s.found() {
		return // a launcher that has put it here is not needed to end it
	}
	if closed {
		s.launcherDied()
		return
	}
	s.loop.Again(s.control.In, lifecycle.TokenControl)
}

// mainEnded: a main process that is not our child has ended. Nobody tells us how.
func (s *supervisor) mainEnded() {
	if s.config.Held >= 0 {
		_ = unix.Close(s.config.Held) // the client gets its EPIPE
		s.config.Held = -1
	}
	s.lifecycle.End(protocol.MainExited)
}

func (s *supervisor) launcherDied() {
	s.lifecycle.End(protocol.LauncherGone)
}

// unguarded: our guard was killed, so we may be next. As with a supervisor, kill at once.
func (s *supervisor) unguarded() {
	s.lifecycle.Because(protocol.SupervisorGone)
	s.lifecycle.Kill()
}

// look notices at once what the loop may not have told yet.
func (s *supervisor) look() {
	s.reap()
	if s.client.Stdin.Fired() {
		s.lifecycle.HungUp(protocol.StdinClosed)
	}
	if s.client.Stdout.Fired() {
		s.lifecycle.HungUp(protocol.StdoutClosed)
	}
	if s.client.Dead() {
		s.lifecycle.ClientDied()
	}
	if linux.Ended(s.group.Guard()) {
		s.unguarded()
	}
}

// forward passes on a signal that the launcher got.
func (s *supervisor) forward(sig unix.Signal) {
	if lifecycle.EndsServer(sig) {
		s.lifecycle.Signalled(sig)
		return
	}
	if !s.exited {
		_ = unix.PidfdSendSignal(s.client.Main, sig, nil, 0) // ESRCH: it has just ended
	}
}

func (s *supervisor) handleSignal(sig unix.Signal) {
	switch sig {
	case unix.SIGCHLD:
		s.reap()
		return
	case protocol.KillSignal:
		s.lifecycle.EndGrace()
	}
	s.lifecycle.End(protocol.StopRequested)
}

// reap waits for the main process and for whatever came home.
func (s *supervisor) reap() { lifecycle.WaitAll(unix.WUNTRACED, s.waited) }

// waited: a child has ended, or the main process was stopped.
func (s *supervisor) waited(pid int, ws unix.WaitStatus) {
	switch {
	case pid != s.main || s.exited:
	case ws.Stopped():
		s.sendStop(ws.StopSignal())
	default:
		s.exited, s.status = true, ws
		s.lifecycle.End(report.ExitCause(ws, s.group.Figures()))
	}
}
