// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// membership is the kind of group that a process is in.
type membership int

const (
	memberOfNone     membership = iota
	memberOfServer              // or it has left that group and carries its tag
	memberOfUnproven            // of a program that is known by its name alone, or was left alone
)

// memberships finds the groups of processes below one gateway.
type memberships struct {
	gateway    int    // its pid
	cgroup     string // in which the gateway was when this watcher began
	candidates *candidates
}

func (m *memberships) of(pid int) membership {
	soft, _ := proc.FileLocks(pid) // no tag, if it has ended
	tag := freeze.Tag(soft)
	switch {
	case tag.IsTag() && m.candidates.haveTag(tag): // of a tree
		return memberOfUnproven
	case tag.IsTag():
		return memberOfServer
	}
	id := launcher.GroupOf(pid, m.gatewayCgroup())
	switch {
	case id == "":
		return memberOfNone
	case m.candidates.hasGroup(id):
		return memberOfUnproven
	}
	return memberOfServer
}

// gatewayCgroup returns the cgroup of the gateway, or the one in which that was before it ended.
func (m *memberships) gatewayCgroup() string {
	now, _ := proc.ReadCgroup(m.gateway) // "", if it has ended
	return cmp.Or(now, m.cgroup)
}
