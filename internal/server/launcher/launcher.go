// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// Server is one command to be run in a group of its own.
type Server struct {
	Name    string
	Path    string   // the file to execute, from Lookup
	Argv    []string // as the client gave it
	Env     []string // the client's, without our own variables
	Policy  protocol.Policy
	Limits  cgroup.Limits
	Backend protocol.Backend
	// Require refuses the backend tree, which is weaker than all others.
	Require bool
	// Weaker, if not nil, is called when the server gets the backend tree because a better one that this
	// host has does not work.
	Weaker func(error)
	// Replace retires older servers of this name and client process.
	Replace bool
	// Slice is where systemd is to put the scope.
	Slice string
	// Notes are the caller's own, for the report.
	Notes []string
	// Report is a descriptor for the report, or -1.
	Report int
	// Verbose asks for notes on who had to be killed.
	Verbose bool
	// Stderr is where the server's goes. One that is taken has its own: see Taken.SetStderr.
	Stderr protocol.Stderr
	// Executable is mcpscope itself, for the supervisor.
	Executable string
	// Client is the pid of the client where it is not our parent; otherwise 0.
	Client int
	// ClientName is what the client is called, where its process is called something else.
	ClientName string
	// Foreign are the descriptors above 2 that the client passed on. The server gets
	// them, and nobody else keeps them.
	Foreign []int
	NoFile  *unix.Rlimit
}

// Outcome is how a server ended.
type Outcome struct {
	// Status is what wait(2) said of the main process; Known is false where nobody
	// could wait for it any more.
	Status unix.WaitStatus
	Known  bool
	Notes  []string
	Stuck  []string // members that could not be killed
}

// launcher is the process that the client started and waits for.
type launcher struct {
	server     *Server
	config     *protocol.Config
	child      *lifecycle.Child // nil unless the client has started the main process
	group      group.Launched
	backend    protocol.Backend
	notes      []string        // on it
	stderr     protocol.Stderr // of a child
	here       backend.Location
	places     []backend.Place // that were thought of
	control    protocol.Control
	birth      *spawn.Birth // of supervisor and server, if the server was born first
	bornSeen   bool
	client     *lifecycle.ClientSide
	loop       *lifecycle.Loop
	supervisor int           // its pid, only for a manager that wants one; 0 before it is started
	enters     bool          // it was started before its group
	begun      int           // its pidfd, or that of its guard; -1 before it is started
	reserved   chan struct{} // closed when there are threads enough
	pidfd      int           // of the supervisor; -1 until it has started the server

	terminal  bool
	subreaper bool            // PID 1 does not reap: see initReaps
	due       lifecycle.Alarm // when the supervisor must have started, or ended, the server
	dueAt     time.Time
	extended  int  // how often it has got more time
	asked     bool // a signal that ends the server was passed on
	final     *protocol.Message
}

// Run runs the server and returns when nothing of it is left. An error means that
// mcpscope itself failed: nothing was started, or everything was ended.
func (s *Server) Run() (Outcome, error) {
	freeze.ClearTag() // a server in a server has its own group and supervisor
	if err := lifecycle.EnoughTasks(); err != nil {
		return Outcome{}, err
	}
	if err := lifecycle.ReadyTimers(); err != nil {
		return Outcome{}, err
	}
	l, err := s.prepare()
	if err != nil {
		return Outcome{}, err
	}
	if err := lifecycle.KeepTracersOff(); err != nil {
		return Outcome{}, err
	}
	if err := l.start(); err != nil {
		l.abandon()
		l.endStandby()
		return Outcome{}, err
	}
	outcome, err := l.watch()
	l.endStandby()
	return outcome, err
}

// prepare makes everything that can fail before anything is started.
func (s *Server) prepare() (*launcher, error) {
	l := &launcher{server: s, terminal: lifecycle.OnTerminal(), pidfd: -1, begun: -1, reserved: make(chan struct{})}
	var err error
	if l.client, err = lifecycle.WatchClient(s.Policy.OnClientDeath); err != nil {
		return nil, err
	}
	if l.loop, err = lifecycle.NewLoop(); err != nil {
		return nil, err
	}
	if err = l.client.Watch(l.loop); err != nil {
		return nil, err
	}
	l.config = s.config()
	return l, nil
}

func (s *Server) config() *protocol.Config {
	return &protocol.Config{
		Version: protocol.ProtocolVersion, Name: s.Name, Path: s.Path, Argv: s.Argv,
		Policy: s.Policy, Limits: s.Limits, Started: time.Now().UnixNano(), NoFile: s.NoFile, Report: s.Report, Verbose: s.Verbose, Replace: s.Replace, Stderr: s.Stderr,
		Client: lifecycle.DescribeClient(s.Client, s.ClientName), Main: -1, Held: -1, Launcher: -1, Payload: -1, Ready: -1, Alive: -1,
	}
}

// start starts the supervisor, which starts the server.
func (l *launcher) start() error {
	go func() { // while the group is made
		lifecycle.ReserveThreads()
		close(l.reserved)
	}()
	// before there is anyone to pass them on to, so that none is lost
	if err := l.loop.Catch(slices.Concat(lifecycle.Ending, lifecycle.Early)...); err != nil {
		return err
	}
	if err := l.reapToo(); err != nil {
		return err
	}
	theirs, err := l.connect()
	if err != nil {
		return err
	}
	defer theirs.Close()
	return l.acquireGroup()
}

// reapToo makes us the one that waits for detached processes where init does not.
func (l *launcher) reapToo() error {
	if l.subreaper = !lifecycle.InitReaps(); l.subreaper {
		return lifecycle.BecomeSubreaper()
	}
	return nil
}

// catchAll is for when the supervisor has been started: what the client ignores it has by then. It takes no longer
// than the supervisor does to start.
func (l *launcher) catchAll() {
	_ = l.loop.Catch(lifecycle.Forwarded()...) // some are caught already, so it can't fail
	if l.terminal {
		_ = l.loop.Catch(lifecycle.JobControl...) // as above
	}
}

func (l *launcher) connect() (theirs protocol.Control, err error) {
	if l.control, theirs, err = protocol.NewControl(); err != nil {
		return theirs, err
	}
	c := l.config
	c.ControlIn, c.ControlOut = theirs.In, theirs.Out
	c.Stdin, c.Input, c.Stdout = l.client.Stdin.FD(), l.client.Input.FD(), l.client.Stdout.FD()
	if l.child == nil { // otherwise the supervisor outlives us
		if c.Launcher, err = unix.PidfdOpen(unix.Getpid(), 0); err != nil {
			return theirs, fmt.Errorf("open pidfd: %w", err)
		}
	}
	c.ClientPidfd, c.StdinFile, c.StdoutFile = l.client.PIDFD, l.client.File, l.client.Answers
	c.Conveyed, c.Where = l.client.Conveyed, l.client.Where
	if l.terminal {
		c.Pgid = unix.Getpgrp()
	}
	return theirs, nil
}

// spawn starts the supervisor, born in group if that is not nil.
func (l *launcher) spawn(group spawn.Group) error {
	l.config.Mask = linux.SignalMask()
	first := l.bearsFirst()
	if first {
		at, fds := l.placed()
		l.config.Place, l.config.Payload = &at, fds[0]
	}
	if l.group != nil {
		if standby := l.group.Standby(); standby != nil {
			l.config.Ready = standby.Ready
		}
	}
	blocked := l.config.Mask | 1<<(protocol.StopSignal-1) // so that it waits for a supervisor that is only starting
	memory, err := protocol.WriteConfig(l.config)
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	}
	defer unix.Close(memory)
	cmd := spawn.Cmd{
		Path: protocol.SupervisorPath(l.server.Executable), Other: l.server.Executable,
		Argv: protocol.SuperviseArgs(memory, "0", l.server.Name),
		Env:  protocol.SupervisorEnv(l.server.Env), Group: group, Detach: true,
		Keep: append(l.config.Inherited(), memory), NoFile: l.server.NoFile, Mask: &blocked,
	}
	if first {
		if l.terminal { // ^Z is the server's as soon as there is one
			_ = l.loop.Catch(lifecycle.NotIgnored(lifecycle.JobControl)...) // some are caught already, so it can't fail
		}
		err = l.bear(cmd)
	} else {
		l.supervisor, err = cmd.Start()
		if err == nil {
			l.begun, _ = unix.PidfdOpen(l.supervisor, 0) // -1 without descriptors
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	}
	if l.child == nil {
		l.closeClientDescriptors()
		l.catchAll()
	}
	return nil
}

// closeClientDescriptors closes what is the server's own, as soon as the supervisor has it. Our stderr
// stays, for our own failures.
func (l *launcher) closeClientDescriptors() {
	_ = linux.ReplaceByNull(0, 1) // without /dev/null they stay open, which a server hardly notices
	for _, fd := range l.server.Foreign {
		if fd != l.server.Report {
			_ = unix.Close(fd)
		}
	}
}

// Started: the server runs.
func (l *launcher) Started(fds []int) error {
	if len(fds) < 2 {
		return errors.New("start the supervisor: it passed no pidfds")
	}
	l.pidfd, l.client.Main = fds[0], fds[1]
	guard := -1
	if len(fds) > 2 {
		guard = fds[2]
	}
	if err := l.group.Started(l.pidfd, guard); err != nil {
		return err
	}
	if err := l.loop.Add(guard, lifecycle.TokenGuard); err != nil {
		return err
	}
	if err := l.loop.Add(l.pidfd, lifecycle.TokenPeer); err != nil {
		return err
	}
	return l.loop.Add(l.client.Main, lifecycle.TokenMain)
}
