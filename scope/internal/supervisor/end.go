// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/scope/internal/group"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// finish ends what left the group, reports, and removes the group.
func (s *supervisor) finish() {
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
	return m
}
