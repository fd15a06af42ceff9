// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/signals"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
)

// On a terminal the shell knows the launcher alone. If that stopped as soon as ^Z is pressed
// the shell would take the terminal back while the server is still putting it in order
// (top, less, an editor), and the server that ignores ^Z would be in the background. So the
// launcher is stopped by nothing but the server's own stop, which the guard, as its parent, writes to the page.
// Both are continued by the shell: they are in one process group. Whether one of
// these signals was sent to the launcher alone is not asked: a second one would stop the
// server twice.

func terminalStops(sig unix.Signal) bool { return slices.Contains(signals.JobControl, sig) }

// stopToo stops this process as the main process was stopped, unless that runs again already.
// It returns when the shell has continued both.
func (b *brain) stopToo(sig unix.Signal) {
	if !b.terminal || b.life.State >= lifecycle.Terminating { // there it may be our own doing, where members are frozen by SIGSTOP
		return
	}
	if st, err := proc.ReadStat(int(b.page.MainPID)); err != nil || st.State != 'T' || st.PPID != int(b.page.GuardPID) {
		return
	}
	signals.StopBy(sig, terminalStops(sig))
}
