// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/lifecycle"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// finish ends what left the group, reports, and removes the group.
func (s *supervisor) finish() {
	s.awaitContainers()
	for range 3 { // someone outside the group may still have put a process into it
		s.reapEscaped()
		s.endTagged()
		if len(s.lifecycle.Result.Stuck) > 0 || !group.Populated(s.group.Members()) {
			break
		}
		s.lifecycle.Result, _ = freeze.Stop{Target: s.group.Members()}.Run() // the loop looks itself
	}
	s.report()
	if len(s.lifecycle.Result.Stuck) > 0 {
		_ = s.control.Send(s.last()) // a launcher that is gone needs no telling
		s.outlast()
	}
	s.swept()
	s.group.Leave()
	_ = s.control.Send(s.last()) // as above; said twice it changes nothing
}

// endContainers begins to end what an engine runs for the server. The kill waits for that: an engine whose own
// processes for the container were killed, as members, can neither stop nor remove it.
func (s *supervisor) endContainers() {
	c := s.config
	if c.Engine() == "" || s.found() { // what somebody else has started has no label
		return
	}
	grace := s.lifecycle.TermGrace()
	if grace < 0 { // its program has ended, so nobody waits for ever
		grace = protocol.DefaultPolicy().TermGrace
	}
	server := lifecycle.Contained{ID: s.group.Ident(), Path: c.Path, Argv: c.Argv, Env: s.env, Grace: grace}
	killAt := time.Now().Add(grace)
	s.contained = make(chan error, 1)
	go func() {
		s.contained <- server.End()
		time.AfterFunc(time.Until(killAt), s.lifecycle.Hurry)
	}()
}

// awaitContainers takes in what came of that.
func (s *supervisor) awaitContainers() {
	if s.contained == nil {
		return
	}
	err := <-s.contained
	switch {
	case err == nil:
	case s.exited && s.status.ExitStatus() == engineFailed:
		s.Note(err.Error())
	default:
		s.undone = err.Error()
	}
}

// engineFailed is the status of an engine's program that could not start a container.
const engineFailed = 125

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
	for _, stuck := range s.lifecycle.Result.Stuck[:min(len(s.lifecycle.Result.Stuck), protocol.LastWordMost)] {
		m.Stuck = append(m.Stuck, group.DescribeStuck([]freeze.Stuck{stuck}))
	}
	if s.undone != "" {
		m.Stuck = append(m.Stuck, s.undone)
	}
	return m
}
