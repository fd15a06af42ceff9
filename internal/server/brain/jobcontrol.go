// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/signals"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
)

// The shell of a terminal knows the launcher alone. If ^Z stopped the launcher at once, the shell would
// take the terminal back while the server (top, less, an editor) still restores it. A server that ignores
// ^Z would be in the background. So the launcher stops only when the main process has stopped, which the
// guard writes to the page. Then the shell continues both: they are in one process group.

func terminalStops(sig unix.Signal) bool { return slices.Contains(signals.JobControl, sig) }

// stopToo stops this process by the same signal as the main process, unless that runs again. It returns
// when the shell has continued both.
func (b *Brain) stopToo(sig unix.Signal) {
	if !b.Terminal || b.life.State >= lifecycle.Terminating { // a kill of a tree begins with SIGSTOP
		return
	}
	st, err := proc.ReadStat(int(b.Page.MainPID))
	if err == nil && st.State == 'T' && st.PPID == int(b.Page.GuardPID) {
		signals.StopBy(sig, terminalStops(sig))
	}
}
