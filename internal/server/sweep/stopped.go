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
// such a launcher stays stopped, unless its guard is dead or it was asked to end.

// A launcher that a member stops again and again is continued so often, with so much time to react.
const (
	continuations = 10
	reaction      = 10 * time.Millisecond
)

// stoppedLauncher is a process that is a launcher, and stopped.
type stoppedLauncher struct {
	pid     int
	pidfd   int
	traced  bool
	pending uint64 // signals
}

// openStopped returns nil unless the launcher of that identity is stopped. Another process may have written
// the identity: only a process of the owner counts.
func openStopped(of protocol.Identity, owner int) *stoppedLauncher {
	if of.PID <= 0 || of.Namespace != group.PIDNamespace() {
		return nil
	}
	pidfd, err := unix.PidfdOpen(of.PID, 0)
	if err != nil {
		return nil // it has ended
	}
	st, statErr := proc.ReadStat(of.PID)
	status, statusErr := proc.ReadStatus(of.PID)
	isStopped := statErr == nil && st.Stopped()
	isOwners := statusErr == nil && status.UID[0] == owner
	if !isStopped || !isOwners || !group.Alive(of) { // asked when the pidfd is open
		_ = unix.Close(pidfd)
		return nil
	}
	return &stoppedLauncher{of.PID, pidfd, isTraced(st), status.Pending}
}

// isTraced: it is stopped by a tracer, which can hold it for ever.
func isTraced(st proc.Stat) bool { return st.State == 't' }

func (l *stoppedLauncher) close() { _ = unix.Close(l.pidfd) }

// wake reports whether the launcher lives.
func (l *stoppedLauncher) wake() bool {
	return unix.PidfdSendSignal(l.pidfd, unix.SIGCONT, nil, 0) == nil
}

// wakeLauncher continues a launcher that is stopped, and reports whether it has.
func wakeLauncher(of protocol.Identity, owner int) bool {
	launcher := openStopped(of, owner)
	if launcher == nil {
		return false
	}
	defer launcher.close()
	return launcher.wake()
}

// wakeOrKillAskedLauncher continues a launcher that is stopped while a signal is pending that asks it to end.
// It reports whether there was one. A tracer can hold it for ever, and a member can stop it faster than it
// reacts: then it is killed, and its guard stops the server.
func wakeOrKillAskedLauncher(of protocol.Identity, owner int) bool {
	launcher := openStopped(of, owner)
	if launcher == nil {
		return false
	}
	defer launcher.close()
	if !hasEnding(launcher.pending) {
		return false
	}
	if launcher.continueAgain() {
		return true
	}
	return unix.PidfdSendSignal(launcher.pidfd, unix.SIGKILL, nil, 0) == nil
}

// continueAgain continues a launcher until it runs, and reports whether it does or has ended. The signal that
// asked is not pending any more when the launcher is stopped before it can react: no later sweep would know.
func (l *stoppedLauncher) continueAgain() bool {
	traced := l.traced
	for range continuations {
		if traced || !l.wake() {
			return false
		}
		if linux.AwaitWithin(l.pidfd, unix.POLLIN, reaction) {
			return true
		}
		st, err := proc.ReadStat(l.pid)
		if err != nil || !st.Stopped() {
			return true
		}
		traced = isTraced(st)
	}
	return false
}

// wakeOrKillAskedLauncherOf calls wakeOrKillAskedLauncher for the launcher of a group in use.
func wakeOrKillAskedLauncherOf(parent *cgroup.Group, dir string) {
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
		wakeOrKillAskedLauncher(g.Facts().Launcher, g.Owner())
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
