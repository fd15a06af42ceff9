//go:build linux

package scope

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
)

// finish ends what left the group, reports, and removes the group.
func (s *supervisor) finish() {
	for range 3 { // someone outside the group may still have put a process into it
		s.reapEscaped()
		s.endMarked()
		if len(s.course.result.Stuck) > 0 || !populated(s.group.members()) {
			break
		}
		s.course.result, _ = freeze.Stop{Target: s.group.members()}.Run() // the loop looks itself
	}
	s.report()
	if len(s.course.result.Stuck) > 0 {
		_ = s.control.send(s.last()) // a launcher that is gone needs no telling
		s.outlast()
	}
	s.swept()
	s.group.leave()
	_ = s.control.send(s.last()) // as above; said twice it changes nothing
}

// outlast stays until a member in uninterruptible sleep has ended after all.
func (s *supervisor) outlast() {
	_, _, _ = s.group.members().Await(time.Time{}, -1, isEmpty)
}

// last is the last word. What is in it is for people, and has to fit a message.
func (s *supervisor) last() message {
	m := message{Type: sayEnded, Cause: s.course.cause, Notes: s.notesForPeople()}
	if s.exited {
		status := int(s.status)
		m.Status = &status
	}
	for _, stuck := range s.course.result.Stuck[:min(len(s.course.result.Stuck), lastWordMost)] {
		m.Stuck = append(m.Stuck, describeStuck([]freeze.Stuck{stuck}))
	}
	return m
}

// describeStuck is for people.
func describeStuck(all []freeze.Stuck) string {
	var parts []string
	for _, m := range all {
		text := fmt.Sprintf("process %d (%s)", m.PID, m.Name)
		switch {
		case m.State != 'D':
			text += ", not ended by SIGKILL"
		case m.Wchan != "":
			text += ", sleeping uninterruptibly in " + m.Wchan
		default:
			text += ", sleeping uninterruptibly"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
