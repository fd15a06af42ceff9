// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A server can stop its launcher, which then passes no signal on. A person can, too, by ^Z in a terminal:
// such a launcher stays stopped.

// which selects the stopped launchers to continue.
type which int

const (
	anyStop which = iota
	askedToEnd
)

// A launcher that a member stops again and again is continued so often, with so much time to react.
const (
	continuations = 10
	reaction      = 10 * time.Millisecond
)

// continueLauncher continues a launcher that is stopped, and reports whether it has. A tracer can hold one
// for ever, and a member can stop it faster than it reacts: if that was asked to end it is killed, and its
// guard stops the server. Another process may have written the identity: only a process of the owner counts.
func continueLauncher(of protocol.Identity, owner int, w which) bool {
	if of.PID <= 0 || of.Namespace != group.PIDNamespace() {
		return false
	}
	pidfd, err := unix.PidfdOpen(of.PID, 0)
	if err != nil {
		return false // it has ended
	}
	defer unix.Close(pidfd)
	st, err := proc.ReadStat(of.PID)
	if err != nil || !st.Stopped() || !group.Alive(of) { // asked when the pidfd is open
		return false
	}
	status, err := proc.ReadStatus(of.PID)
	if err != nil || status.UID[0] != owner || w == askedToEnd && !hasEnding(status.Pending) {
		return false
	}
	if w == anyStop {
		return unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0) == nil
	}
	return continueAgain(of.PID, pidfd, st)
}

// continueAgain continues a stopped launcher that was asked to end until it stays so, or kills it. The signal
// that asked is not pending any more when the launcher is stopped before it can react: no later sweep would
// know.
func continueAgain(pid, pidfd int, st proc.Stat) bool {
	for range continuations {
		if traced := st.State == 't'; traced {
			break
		}
		if unix.PidfdSendSignal(pidfd, unix.SIGCONT, nil, 0) != nil {
			return false
		}
		if linux.AwaitWithin(pidfd, unix.POLLIN, reaction) {
			return true
		}
		var err error
		st, err = proc.ReadStat(pid)
		if err != nil || !st.Stopped() {
			return true
		}
	}
	return unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) == nil
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

// continueAsked continues the launcher of a group in use if that is stopped, and a signal for it is pending
// that asks the server to end.
func continueAsked(parent *cgroup.Group, dir string) {
	g, err := group.Open(parent, dir)
	armed := false
	if err == nil {
		_, armed, err = g.Payload.Attr(group.AttrArmed)
	}
	if err == nil && armed {
		continueLauncher(g.Facts().Launcher, g.Owner(), askedToEnd)
	}
	g.Close()
}
