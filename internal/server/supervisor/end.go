// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// finish ends what left the group, reports, and removes the group.
func (s *supervisor) finish() {
	for s.endContainersFirst(); !s.endedFirst(); {
		s.handle(s.loop.Next())
	}
	for range 3 { // someone outside the group may still have put a process into it
		s.reapEscaped()
		s.endTagged()
		if len(s.lifecycle.Result.Stuck) > 0 || !group.Populated(s.group.Members()) {
			break
		}
		s.lifecycle.Result, _ = freeze.Stop{Target: s.group.Members()}.Run() // this for looks again
	}
	s.endContainers()
	s.report()
	if len(s.lifecycle.Result.Stuck) > 0 {
		_ = s.control.Send(s.last()) // a launcher that is gone needs no telling
		s.outlast()
	}
	s.swept()
	s.group.Leave()
	_ = s.control.Send(s.last()) // as above; said twice it changes nothing
}

// contained is this server with what is left of its grace, if an engine runs it: what somebody else has started has
// no label.
func (s *supervisor) contained() (server lifecycle.Contained, is bool) {
	left := s.lifecycle.GraceLeft()
	if s.config.Policy.TermGrace < 0 { // for a program that has ended
		left = protocol.DefaultPolicy().TermGrace
	}
	return lifecycle.Contained{ID: s.group.Ident(), Argv: s.config.Argv, Env: s.env, Grace: left}, s.config.Engine() != "" && !s.found()
}

// endContainersFirst begins to end what can't be ended any more when members have been killed (lifecycle.EndsFirst), as
// soon as the engine's program has ended or the grace is over.
func (s *supervisor) endContainersFirst() {
	due := s.exited || s.lifecycle.Phase == lifecycle.Stopped || s.lifecycle.GraceLeft() <= 0
	if s.lifecycle.Beside == 0 || s.first != nil || !due {
		return
	}
	server, _ := s.contained()
	s.first = make(chan struct{})
	go func() {
		defer s.loop.Wake()
		defer close(s.first)
		_ = server.End() // it is asked once more
		s.lifecycle.Hurry()
	}()
}

// endedFirst tells whether they have been ended, or need not be.
func (s *supervisor) endedFirst() bool {
	if s.first == nil {
		return true
	}
	select {
	case <-s.first:
		return true
	default:
		return false
	}
}

// endContainers ends what an engine runs for the server, whose own processes are dead, so that they start no more.
func (s *supervisor) endContainers() {
	server, is := s.contained()
	if !is {
		return
	}
	switch err := server.End(); {
	case err == nil:
	case s.exited && slices.Contains(neverStarted, s.status.ExitStatus()):
		s.Note(err.Error())
	default:
		s.undone = err.Error()
	}
}

// neverStarted are the statuses of an engine's program that could not start a container, and of a shell that could not
// start that.
var neverStarted = []int{125, 126, 127}

// outlast stays until a member in uninterruptible sleep has ended after all.
func (s *supervisor) outlast() {
	_, _, _ = s.group.Members().Await(time.Time{}, -1, group.IsEmpty)
}

// last is the last word. What is in it is for people, and has to fit a message.
func (s *supervisor) last() protocol.Message {
	m := protocol.Message{Type: protocol.SayEnded, Cause: s.lifecycle.Cause, Notes: s.notesForPeople()}
	if s.exited {
		status := int(s.status)
		m.Status = &status
	}
	for _, stuck := range s.lifecycle.Result.Stuck[:min(len(s.lifecycle.Result.Stuck), report.LastWordMost)] {
		m.Stuck = append(m.Stuck, group.DescribeStuck([]freeze.Stuck{stuck}))
	}
	if s.undone != "" {
		m.Stuck = append(m.Stuck, s.undone)
	}
	return m
}
