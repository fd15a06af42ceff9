// SPDX-License-Identifier: Apache-2.0

//go:build linux

package fleet

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Limit sets a limit of a running server, and describes the change. It refuses one that would not apply to
// the memory in use.
func (s *Listed) Limit(l cgroup.Limit) (change string, err error) {
	if s.group == nil {
		return "", group.ErrNoGroup
	}
	if err := s.holdsForAll(l); err != nil {
		return "", err
	}
	before, _ := cgroup.ReadLimit(s.group.Payload, l.File) // if there is no such file, setting it says so
	killed := s.group.Figures().OOMKills
	now, err := s.group.Limit(l, s.Backend)
	if err != nil {
		if !cgroup.OfMemory(l.File) || !s.over() {
			return "", err
		}
		now = l.Value // the kernel has killed the server, which had more memory
	}
	s.group.Limited([]string{l.File})
	change = fmt.Sprintf("%s=%s, was %s", l.File, now, before)
	if f := s.group.Figures(); f.EndsWhole && f.OOMKills > killed {
		_, _, _ = s.group.Payload.Await(time.Now().Add(oomWithin), group.IsEmpty)
	}
	if s.over() {
		change += "; with that the server has ended"
	}
	return change, nil
}

// holdsForAll refuses a memory limit if the kernel does not count from the start: memory stays with the
// group that it was charged to.
func (s *Listed) holdsForAll(l cgroup.Limit) error {
	if l.None() || !cgroup.OfMemory(l.File) || s.group.MemoryGroup() != nil {
		return nil
	}
	if err := cgroup.EnableController(s.group.Payload, l.File, s.group.OwnedAbove(s.Backend)); err != nil {
		return group.LimitError(l, err)
	}
	return &protocol.LimitError{
		Text: fmt.Sprintf("set %s: memory used before now was not accounted to this group", l),
		Step: "start it with the limit: as a flag of mcpscope run or gateway, or in mcpscope.toml",
	}
}

// oomWithin is the longest time from the kernel's SIGKILL to the end of the members.
const oomWithin = 5 * time.Second

// over reports whether the server has ended.
func (s *Listed) over() bool {
	st, err := s.group.Payload.State()
	return protocol.IsGone(err) || err == nil && group.IsEmpty(st)
}

// Shortages are failures of members for lack of resources.
type Shortages struct {
	OOMKills    uint64 `json:"oom_kills,omitempty"`
	PIDsRefused uint64 `json:"pids_refused,omitempty"`
}

func (s *Listed) Shortages() Shortages {
	if s.group == nil {
		return Shortages{}
	}
	f := s.group.Figures()
	return Shortages{OOMKills: f.OOMKills, PIDsRefused: f.PIDsRefused}
}
