// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A launcher that is stopped passes no signal on. A person may have stopped it, by ^Z in a terminal. So it
// stays stopped, unless its guard is dead or it was asked to end.

// continueLauncher continues a launcher that is stopped, and reports whether it has. Another process may have
// written the identity: only a process of the owner counts.
func continueLauncher(of protocol.Identity, owner int) bool {
	return continueIf(of, owner, func(proc.Status) bool { return true })
}

// continueAskedLauncher continues a launcher that is stopped while a signal is pending that asks it to end.
func continueAskedLauncher(of protocol.Identity, owner int) {
	continueIf(of, owner, func(status proc.Status) bool { return hasEnding(status.Pending) })
}

func continueIf(of protocol.Identity, owner int, permits func(proc.Status) bool) bool {
	if of.PID <= 0 || of.Namespace != group.PIDNamespace() {
		return false
	}
	pidfd, err := unix.PidfdOpen(of.PID, 0)
	if err != nil {
		return false // it has ended
	}
	defer unix.Close(pidfd)
	st, err := proc.ReadStat(of.PID)
	if err != nil || !st.Stopped() {
		return false
	}
	status, err := proc.ReadStatus(of.PID)
	if err != nil || status.UID[0] != owner || !permits(status) {
		return false
	}
	if !group.Alive(of) { // asked when the pidfd is open: the pid is not another's
		return false
	}
	return unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0) == nil
}

// continueAskedLauncherOf does that for the launcher of a group in use.
func continueAskedLauncherOf(parent *cgroup.Group, dir string) {
	g, err := openGroup(parent, dir)
	if err != nil || g == nil {
		return
	}
	defer g.Close()
	if g.IsWithoutPayload() {
		return
	}
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if err == nil && armed {
		continueAskedLauncher(g.Attributes().Facts().Launcher, g.Membership().Owner())
	}
}

// hasEnding reports whether one of these signals asks a server to end.
func hasEnding(pending uint64) bool {
	for _, sig := range linux.Ending {
		if pending&(1<<(sig-1)) != 0 {
			return true
		}
	}
	return false
}
