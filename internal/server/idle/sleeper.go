// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"fmt"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Attributes of a payload.
const (
	attrIdle = "user.mcpscope.idle" // a Note, for people only
	AttrHeld = "user.mcpscope.held" // frozen by a person, so that input does not thaw it
)

// Note describes a server that is frozen whenever it is idle.
type Note struct {
	Since  int64  // frozen, Unix time in nanoseconds; 0 while it runs
	Wakes  int    // how often an event has woken it since its start, without breaths
	Before uint64 // bytes of memory before the last reclaim; 0 is unknown
}

// ReadNote reads the note of a payload; the zero Note without one.
func ReadNote(payload *cgroup.Group) (n Note) {
	text, _, _ := payload.Attr(attrIdle)                  // none, if it can't be read
	_, _ = fmt.Sscan(text, &n.Since, &n.Wakes, &n.Before) // zero as far as it is no note
	return n
}

// Held reports whether a person has frozen the payload.
func Held(payload *cgroup.Group) bool {
	_, held, _ := payload.Attr(AttrHeld) // false, if it can't be read
	return held
}

// Sleeper is a server with its policy.
type Sleeper struct {
	Policy *Policy
	Group  *group.ControlGroup
	Client *client.Side
	// HasReclaimed: a reclaim of this process may have taken memory, which the server has to read back.
	HasReclaimed bool

	note     Note
	mappings []mapping // to reclaim, nil before they are listed
}

// NewSleeper goes on counting the wakes of the server.
func NewSleeper(p *Policy, g *group.ControlGroup, c *client.Side) *Sleeper {
	return &Sleeper{Policy: p, Group: g, Client: c, note: ReadNote(g.Payload)}
}

// Now is the time.
func (s *Sleeper) Now() time.Time { return time.Now() }

// Freeze freezes all members, and reports whether it has.
func (s *Sleeper) Freeze() bool {
	s.mappings = nil
	return freeze.Freeze(s.Group.Payload)
}

// Thaw leaves members frozen that a person has frozen.
func (s *Sleeper) Thaw() {
	if !Held(s.Group.Payload) {
		_ = s.Group.Payload.ThawAlone() // it was removed
	}
}

// Frozen reports whether all members are frozen, by whomever.
func (s *Sleeper) Frozen() bool { return group.Frozen(s.Group.Payload) }

// MarkFrozen makes it visible that the members are frozen.
func (s *Sleeper) MarkFrozen(now time.Time) {
	if s.Policy.Used {
		s.note.Since = now.UnixNano()
		if counted := s.Group.Limits().MemoryGroup(); counted != nil {
			if n := counted.Number("memory.current"); n != nil {
				s.note.Before = *n
			}
		}
	}
	s.writeNote(s.note.Since)
}

// isAgent reports whether the server is on a terminal.
func (s *Sleeper) isAgent() bool { return s.Policy.IsAgent }

// Wake thaws an idle server, for a breath or for an event. hasInput reports that the event is input.
func (s *Sleeper) Wake(now time.Time, hasInput bool) {
	isBreath := s.Policy.thaw.nextIsBreath
	if !isBreath { // written before the server can answer, so that no view is wrong
		s.note.Wakes++
		s.writeNote(0)
	}
	s.Thaw()
	usageHasInput := !s.isAgent() // of an agent, Usage counts only its servers' input
	s.Policy.Thawed(now, hasInput && usageHasInput && !isBreath)
}

func (s *Sleeper) writeNote(since int64) {
	_ = s.Group.Payload.SetAttr(attrIdle, fmt.Sprint(since, s.note.Wakes, s.note.Before)) // for people only
}

// ReadTraffic returns how many bytes a process has read and written, of files too.
func ReadTraffic(pid int) (read, written int64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, 0, err
	}
	in, _ := proc.Keyed(b, "rchar:")
	out, _ := proc.Keyed(b, "wchar:")
	return int64(in), int64(out), nil
}

// Usage fails if a member can't be examined: a setuid program of another user, or one that has just ended.
func (s *Sleeper) Usage() (Usage, error) {
	cpu, err := s.Group.Payload.CPU()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{CPU: cpu}
	pids, err := s.Group.Payload.Members()
	if s.isAgent() && err == nil {
		return agentUsage(pids, s.Client.Server.Terminal)
	}
	for _, pid := range pids {
		st, statErr := proc.ReadStat(pid) // first: what is read meanwhile is counted
		u.Active = u.Active || statErr == nil && isActive(st)
		read, written, err := ReadTraffic(pid)
		if err != nil {
			return u, err
		}
		u.Read += read
		u.Written += written
	}
	return u, err
}

// Pending is input or output. A freeze cuts a write short that waits for the client, and not every runtime
// writes the rest.
func (s *Sleeper) Pending() string {
	switch in := s.Client; {
	case in.Server.Input.Readable():
		return "it does not read its input"
	case in.Blocked() || in.BlockedErrors():
		return "the client does not read its output"
	}
	return ""
}

// Obstacle is any other reason. A server that reads a socket by recv(2) usually answers by send(2), and
// neither is counted. So one that has a socket and has not written an answer to initialize is left alone.
func (s *Sleeper) Obstacle(u Usage) string {
	switch in := s.Client; {
	case in.Server.Input < 0:
		return "its stdin is neither a pipe nor a socket"
	case in.Server.Input.Unheld():
		return "it has replaced its stdin"
	case in.Socket && u.Written < greeting:
		return unwritten
	}
	pids, _ := s.Group.Payload.Members() // Usage has just listed them
	if s.isAgent() {
		return s.agentsObstacle(pids)
	}
	for _, pid := range pids {
		if why := tie(pid, pids); why != "" {
			return why
		}
	}
	if s.Policy.Used && traceOthers(pids) { // not after each ping: all processes are read
		return traces
	}
	return ""
}

// agentsObstacle is the rest of Obstacle for an agent, whose open files Usage has just examined.
func (s *Sleeper) agentsObstacle(pids []int) string {
	isRaw, err := s.Client.Server.Terminal.IsRaw()
	switch {
	case err != nil:
		return "its terminal can't be examined"
	case !isRaw:
		return notRaw
	case s.Policy.Used && traceOthers(pids): // as for a server
		return traces
	}
	return ""
}
