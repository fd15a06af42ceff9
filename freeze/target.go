// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
)

// Target is what a ladder ends: a *cgroup.Group or, where there is no cgroup, a
// *Tree.
type Target interface {
	// Members lists who is to be ended, in no order.
	Members() ([]int, error)
	// State and Await are as those of a cgroup.Group.
	State() (cgroup.State, error)
	Await(deadline time.Time, wake int, done func(cgroup.State) bool) (cgroup.State, bool, error)
	// SetFrozen begins to freeze, or to thaw, all members.
	SetFrozen(bool) error
	// Thaw thaws what members have frozen themselves, too.
	Thaw() error
	// Kill kills all members in one act, or fails where that can't be had.
	Kill() error
}
