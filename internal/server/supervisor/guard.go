// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// runGuard is the life of a supervisor that turns out to be in no cgroup: it starts
// another as its child, and sees to what that may leave.
func (s *supervisor) runGuard(at protocol.Message, foreign []int) int {
	if err := s.startGuarded(at); err != nil {
		s.exited = true // it was killed, if it ran, and may have started the server by then
		s.guardTree()
		s.failed(err)
		return 125
	}
	s.closeClientDescriptors(foreign)
	for _, fd := range s.config.Inherited() {
		if fd != s.config.ControlOut && fd != s.config.Launcher { // the first says to the launcher that nobody is left, when it is closed
			_ = unix.Close(fd) // the supervisor has it
		}
	}
	_, _ = lifecycle.ContinuedBy(s.config.ControlOut) // best effort: who stops the guard has to hold the supervisor, too
	lifecycle.ReserveThreads()
	s.guardTree()
	return 0
}

func (s *supervisor) startGuarded(at protocol.Message) error {
	if err := lifecycle.BecomeSubreaper(); err != nil {
		return err
	}
	if err := s.loop.Add(s.config.Launcher, lifecycle.TokenPeer); err != nil {
		return err
	}
	var alive [2]int
	if err := unix.Pipe2(alive[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	s.config.Alive = alive[1] // closed with all that the supervisor has
	if err := s.loop.Add(alive[0], lifecycle.TokenGuard); err != nil {
		return err
	}
	s.config.Place, at.Place.Guard = at.Place, os.Getpid()
	memory, err := protocol.WriteConfig(s.config)
	if err != nil {
		return err
	}
	defer unix.Close(memory)
	env, err := proc.Environ()
	if err != nil {
		return err
	}
	blocked := s.config.Mask | 1<<(protocol.StopSignal-1)
	cmd := spawn.Cmd{
		Path: "/proc/self/exe", Argv: protocol.SuperviseArgs(memory, "0", s.config.Name), Env: env,
		Keep: append(s.config.Inherited(), memory), NoFile: s.config.NoFile, Mask: &blocked,
	}
	if s.main, err = cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", protocol.ErrSpawn, err)
	}
	return nil
}

// guardTree lasts until the supervisor has ended and nobody is left of what it may have
// left to us. It has to act only if the supervisor was killed.
func (s *supervisor) guardTree() {
	supervisor, err := unix.PidfdOpen(s.main, 0) // unreaped, so it is the one
	if err != nil {
		supervisor = -1 // out of descriptors: a nested one is not asked, but killed in time
	}
	all := backend.OwnTree(nil)
	var climbing chan struct{} // the ladder; who it kills is reaped meanwhile
	var late overdue
	for {
		lifecycle.WaitAll(0, func(pid int, _ unix.WaitStatus) { s.exited = s.exited || pid == s.main })
		if childless() {
			return
		}
		if s.exited && climbing == nil {
			climbing = make(chan struct{})
			go func() {
				defer s.loop.Wake()
				defer close(climbing)
				_, _ = freeze.Stop{Target: &all}.Run() // whoever can't be killed yet is waited for
			}()
		}
		switch s.loop.Next(&late.Alarm) {
		case lifecycle.TokenPeer:
			late.begin(s.config.Policy)
		case lifecycle.TokenGuard: // who is not traced can be waited for in a moment
			_ = linux.AwaitEnd(supervisor, unix.POLLIN, protocol.WakeEvery)
			s.exited = true
		}
		if late.Rings() && late.gone(s.main) && !s.exited {
			_ = unix.Kill(s.main, unix.SIGKILL) // not waited for yet
			s.exited = true
		}
		for _, sig := range s.loop.Signals() {
			if sig != unix.SIGCHLD && supervisor >= 0 {
				_ = unix.PidfdSendSignal(supervisor, protocol.StopSignal, nil, 0) // gone is as good
				_ = unix.PidfdSendSignal(supervisor, unix.SIGCONT, nil, 0)
			}
		}
		select {
		case <-climbing:
			climbing = nil
			s.awaitChild()
		default:
		}
	}
}

// awaitChild waits until a child has ended, and leaves it to be reaped.
func (s *supervisor) awaitChild() {
	_ = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT, nil) // EINTR, ECHILD: looked at by the caller
}

// overdue is for a supervisor whose launcher is dead: nobody but its guard can tell then that a member holds it, by stopping or
// tracing it. It rings when the server should be gone.
type overdue struct {
	lifecycle.Alarm
	times int
}

func (o *overdue) begin(p protocol.Policy) {
	if within := p.AfterStop(); within != protocol.Never {
		o.Set(within)
		lifecycle.StayAwake(within)
	}
}

// gone tells whether it will not act any more; one that runs gets more time.
func (o *overdue) gone(supervisor int) bool {
	st, err := proc.ReadStat(supervisor)
	if err != nil || st.Stopped() || st.State == 'Z' || o.times >= protocol.ExtendMost {
		return true
	}
	o.times++
	o.Set(protocol.ExtendBy)
	return false
}
