// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A launcher that is stopped passes no signal on. A person may have stopped it, by ^Z in a terminal. So it
// stays stopped, unless its guard is dead or it was asked to end. Then its guard is asked, which stops the
// server whether the launcher runs or not: a member may stop that again at once.

// continueLauncher continues a launcher that is stopped, and reports whether it has. Another process may have
// written the identity: only a process of the owner counts.
func continueLauncher(of protocol.Identity, owner int) bool {
	pidfd, _ := openStopped(of, owner)
	if pidfd < 0 {
		return false
	}
	defer unix.Close(pidfd)
	return unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0) == nil
}

// isAskedInVain reports whether a launcher is stopped while a signal is pending that asks it to end.
func isAskedInVain(of protocol.Identity, owner int) bool {
	pidfd, status := openStopped(of, owner)
	if pidfd < 0 {
		return false
	}
	_ = unix.Close(pidfd)
	return hasEnding(status.Pending)
}

// openStopped opens a launcher that is stopped, and reads its status. The pidfd, which the caller closes, is
// -1 for any other process.
func openStopped(of protocol.Identity, owner int) (pidfd int, status proc.Status) {
	if of.PID <= 0 || of.Namespace != group.PIDNamespace() {
		return -1, status
	}
	pidfd, err := unix.PidfdOpen(of.PID, 0)
	if err != nil {
		return -1, status // it has ended
	}
	st, err := proc.ReadStat(of.PID)
	isStopped := err == nil && st.Stopped()
	if isStopped {
		status, err = proc.ReadStatus(of.PID)
	}
	// Whether it lives is asked when the pidfd is open: the pid is not another's.
	if !isStopped || err != nil || status.UID[0] != owner || !group.Alive(of) {
		_ = unix.Close(pidfd)
		return -1, status
	}
	return pidfd, status
}

// stopAsked asks the guard of a group in use to stop the server if its launcher was asked in vain.
func stopAsked(parent *cgroup.Group, dir string) {
	g, err := openGroup(parent, dir)
	if err != nil || g == nil {
		return
	}
	defer g.Close()
	if g.IsWithoutPayload() {
		return
	}
	_, armed, err := g.Payload.Attr(group.AttrArmed)
	if err != nil || !armed || !isAskedInVain(g.Attributes().Facts().Launcher, g.Membership().Owner()) {
		return
	}
	guard := g.Guard().Open()
	if guard < 0 { // the next sweep finds a launcher that is alone
		return
	}
	_ = backend.RequestStop(guard) // it has ended
	_ = unix.Close(guard)
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
