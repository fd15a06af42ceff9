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

// Below is what descends from a guard, but for a later brain, and for guards of servers in this server with all that
// descends from them.
func Below(guard Guarded) *freeze.Tree {
	own := os.Getpid()
	return &freeze.Tree{
		Roots: []freeze.Root{{PID: guard.PID, PIDFD: guard.PIDFD}},
		Spare: func(st proc.Stat) bool { return st.PID == own || IsGuard(st) },
	}
}

// IsGuard goes by the name of a process. A member that has given itself such a name is spared no longer than a guard
// needs.
func IsGuard(st proc.Stat) bool {
	id, is := strings.CutPrefix(st.Comm, protocol.GroupPrefix)
	return is && TagOf(id) != 0 && protocol.GuardComm(id) == st.Comm && len(id) == protocol.IDLength
}

// IsBrain tells whether a process is a later brain of a guard: it is executed by that, and called so.
func IsBrain(st proc.Stat, guard int) bool {
	if st.PPID != guard {
		return false
	}
	line, err := proc.Cmdline(st.PID, protocol.CommandMost)
	return err == nil && strings.HasPrefix(line, strings.Join(protocol.SuperviseArgs(""), " "))
}
