// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Below is the tree of a guard's descendants, but for the calling process: a later brain is a child of the
// guard.
func Below(guard Guarded) *freeze.Tree {
	own := os.Getpid()
	return &freeze.Tree{
		Roots: []freeze.Root{{PID: guard.PID, PIDFD: guard.PIDFD}},
		Spare: func(st proc.Stat) bool { return st.PID == own },
	}
}

// IsGuard goes by the name of a process, which it can choose.
func IsGuard(st proc.Stat) bool {
	id, is := strings.CutPrefix(st.Comm, protocol.GroupPrefix)
	return is && TagOf(id) != 0 && protocol.GuardComm(id) == st.Comm && len(id) == protocol.IDLength
}

// IsBrain reports whether a process is a later brain of a guard, by its arguments.
func IsBrain(st proc.Stat, guard int) bool {
	if st.PPID != guard {
		return false
	}
	line, err := proc.Cmdline(st.PID, protocol.CommandMost)
	return err == nil && strings.HasPrefix(line, strings.Join(protocol.SuperviseArgs(""), " "))
}
