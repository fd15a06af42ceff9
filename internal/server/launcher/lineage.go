// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Lineage is the id of a process and of all that it starts, where those are in no group of
// their own: they are found by a tag alone. A server that is run or taken leaves it.
type Lineage string

// NewLineage makes an id.
func NewLineage() (Lineage, error) {
	id, err := protocol.NewID()
	return Lineage(id), err
}

// Add adds a process that is held by a pidfd, with what it starts from now on.
func (l Lineage) Add(pid, pidfd int) error { return group.TagOf(string(l)).Put(pid, pidfd) }

// End sends SIGTERM to every process that is left, and SIGKILL after the grace period. Processes of another
// user, and members of a server's group, are left alone.
func (l Lineage) End(grace time.Duration) error {
	_, err := freeze.Stop{Target: group.TaggedTree(string(l)), Ask: unix.SIGTERM, Grace: grace}.Run()
	return err
}
