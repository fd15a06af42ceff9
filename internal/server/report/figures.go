// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Count adds what the server has used, its limits, and what became of them.
func (r *Report) Count(members interface{ CPU() time.Duration }, f protocol.Figures) {
	cpu := members.CPU().Seconds()
	r.CPUSeconds = &cpu
	if f == nil {
		return
	}
	r.MemoryPeakBytes = f.MemoryPeak()
	r.Limits = f.LimitsNow()
	if kills := f.OOMKills(); kills > 0 {
		r.OutOfMemory = &OutOfMemory{Kills: kills, LimitBytes: f.MemoryMax(), PeakBytes: r.MemoryPeakBytes}
	}
	if times, limit := f.PidsRefused(); times > 0 {
		r.PIDsRefused = &PIDsRefused{Times: times, Limit: limit}
	}
}

// ExitCause: where the kernel ends all of a group that has no memory any more, it has ended the
// main process too. Where it does not, who has killed that can't be told.
func ExitCause(ws unix.WaitStatus, f protocol.Figures) protocol.Cause {
	if f != nil && ws.Signaled() && ws.Signal() == unix.SIGKILL && f.EndsWhole() && f.OOMKills() > 0 {
		return protocol.MemoryExhausted
	}
	return protocol.MainExited
}

// TellStart tells the journal that the server runs.
func TellStart(about protocol.Subject, stderr protocol.Stderr) {
	about.Tell(protocol.EventStarted, systemd.Info, fmt.Sprintf("started by %s[%d], %s", about.Client.Name, about.Client.PID, about.Backend),
		systemd.JournalField{Name: protocol.FieldStderr, Value: string(stderr)})
}
