// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// TellStart is for everything that waits until the server runs.
func (b *Brain) TellStart() {
	b.beginRest()
	if systemd.JournalExists() {
		report.LogStart(b.subject(), b.Stderr)
	}
	b.finish = sweep.BeginSweep(b.Group.Beside())
	if b.Config.Replace {
		b.Beside.Go(b.replaceOlder)
	}
}

// openMain opens the pidfd by which Unread finds the main process.
func (b *Brain) openMain() {
	fd, err := unix.PidfdOpen(int(b.Page.MainPID), 0)
	if err != nil {
		return // it has ended
	}
	st, err := proc.ReadStat(int(b.Page.MainPID))
	if err != nil || st.PPID != int(b.Page.GuardPID) { // it has ended, and was reaped
		_ = unix.Close(fd)
		return
	}
	b.Client.Main = fd
}
