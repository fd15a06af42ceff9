// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Out of memory the kernel kills the largest process of a session, which is the agent. So where a session
// has a limit of memory, its servers have a score that is so much higher: one of them is killed first.
const oomScoreAboveAgent = 500

// IsMemoryBounded reports whether a directory has a limit of memory.
func IsMemoryBounded(dir *cgroup.Group) bool { return dir.Number(memoryMax) != nil }

const (
	memoryMax    = "memory.max"
	memoryEvents = "memory.events"
)

// session opens the session that the group is in, also after the group was removed. It is nil for a group
// outside of any.
func (l Limits) session() *cgroup.Group {
	if !l.of.InSession || l.of.IsTree() {
		return nil
	}
	dir, err := l.of.Top().Parent()
	if err == nil {
		return dir
	}
	dir, err = cgroup.Open(names.SessionIn(l.of.Payload.Path()))
	if err != nil {
		return nil
	}
	return dir
}

// KillWholeInSession has the kernel kill the whole server when its session is out of memory. A server that
// is in none, or in one without a limit of memory, stays as it is.
func (l Limits) KillWholeInSession() error {
	session := l.session()
	defer session.Close()
	if session == nil || !IsMemoryBounded(session) {
		return nil
	}
	return l.killWhole()
}

// Whole makes the kernel kill all members together.
var Whole = cgroup.Limit{File: cgroup.OOMGroup, Value: "1"}

func (l Limits) killWhole() error {
	if _, err := cgroup.SetLimit(l.of.Payload, Whole, l.OwnedAbove()); err != nil {
		return LimitError(Whole, err)
	}
	return nil
}

// PreferInSession has the kernel kill a member before its client when their session is out of memory. What
// the member forks inherits that.
func (l Limits) PreferInSession(pid, pidfd, client int) error {
	session := l.session()
	defer session.Close()
	if session == nil || !IsMemoryBounded(session) {
		return nil
	}
	return RaiseOOMScore(pid, pidfd, client)
}

// PreferAll has the kernel kill a running server as a whole, and before its client, when their session is
// out of memory. The session gets a limit of memory.
func (l Limits) PreferAll(client int) error {
	if err := l.killWhole(); err != nil {
		return err
	}
	return l.preferMembers(client)
}

func (l Limits) preferMembers(client int) error {
	ofClient, err := readOOMScore(client)
	if err != nil {
		return err
	}
	isPreferred := func(pid int) bool {
		score, err := readOOMScore(pid)
		return err == nil && score >= oomScoreAbove(ofClient)
	}
	err = markMembers(l.of.Members(), isPreferred, func(pid int) error {
		pidfd, err := l.of.Membership().open(pid)
		if err != nil {
			return err
		}
		defer unix.Close(pidfd)
		err = RaiseOOMScore(pid, pidfd, client)
		if linux.Ended(pidfd) {
			return unix.ESRCH
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("raise the oom scores of the members: %w", err)
	}
	return nil
}

// countSession adds the figures of the session, and whether its limit has cost the server members. A group
// counts the times that its own limit, or one below it, was reached: not those of the directories above.
func (l Limits) countSession(f *protocol.Figures) {
	session := l.session()
	defer session.Close()
	if session == nil {
		return
	}
	f.SessionMax = session.Number(memoryMax)
	f.SessionKills = KillsIn(session)
	own, _ := l.counted(memoryEvents, "oom")
	f.SessionExhausted = f.SessionMax != nil && f.OOMKills > 0 && own == 0
}

// SessionKills counts the members of the whole session that were killed for lack of memory.
func (l Limits) SessionKills() uint64 {
	session := l.session()
	defer session.Close()
	return KillsIn(session)
}

// KillsIn counts the members of a session that were killed for lack of memory. It is 0 for nil.
func KillsIn(session *cgroup.Group) uint64 {
	if session == nil {
		return 0
	}
	b, _ := session.Read(memoryEvents) // none without the controller
	kills, _ := proc.Keyed(b, "oom_kill")
	return kills
}
