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

// Count adds the resources that the server used, its limits, and failures for lack of them.
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

// ExitCause: if the kernel kills whole groups that are out of memory, it has killed the main process.
// Otherwise the sender of a SIGKILL is unknown.
func ExitCause(ws unix.WaitStatus, f protocol.Figures) protocol.Cause {
	if f != nil && ws.Signaled() && ws.Signal() == unix.SIGKILL && f.EndsWhole() && f.OOMKills() > 0 {
		return protocol.MemoryExhausted
	}
	return protocol.MainExited
}

// LogStart writes the event of a start to the journal.
func LogStart(about protocol.Subject, stderr protocol.Stderr) {
	text := fmt.Sprintf("started by %s[%d], %s", about.Client.Name, about.Client.PID, about.Backend)
	about.Log(protocol.EventStarted, systemd.Info, text,
		systemd.JournalField{Name: protocol.FieldStderr, Value: string(stderr)})
}
