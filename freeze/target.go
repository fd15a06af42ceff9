// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Target is a *cgroup.Group or, without cgroups, a *Tree.
type Target interface {
	// Members lists the processes, in any order.
	Members() ([]int, error)
	State() (cgroup.State, error)
	Await(deadline time.Time, done func(cgroup.State) bool) (cgroup.State, bool, error)
	// SetFrozen begins to freeze or thaw all members.
	SetFrozen(bool) error
	// Thaw also thaws what members have frozen.
	Thaw() error
	// Kill kills all members at once, or fails if that is impossible.
	Kill() error
}
