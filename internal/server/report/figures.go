// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"fmt"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Count adds the resources that the server used, its limits, and failures for lack of them.
func (r *Report) Count(members interface{ CPU() time.Duration }, f *protocol.Figures) {
	cpu := members.CPU().Seconds()
	r.CPUSeconds = &cpu
	if f == nil {
		return
	}
	r.MemoryPeakBytes, r.Limits = f.MemoryPeak, f.Limits
	if f.OOMKills > 0 {
		r.OutOfMemory = &OutOfMemory{Kills: f.OOMKills, LimitBytes: f.MemoryMax, PeakBytes: f.MemoryPeak}
	}
	if f.PIDsRefused > 0 {
		r.PIDsRefused = &PIDsRefused{Times: f.PIDsRefused, Limit: f.PIDsMax}
	}
}

// LogStart writes the event of a start to the journal.
func LogStart(about protocol.Subject, stderr protocol.Stderr) {
	text := fmt.Sprintf("started by %s[%d], %s", about.Client.Name, about.Client.PID, about.Backend)
	about.Log(protocol.EventStarted, systemd.Info, text,
		systemd.JournalField{Name: protocol.FieldStderr, Value: string(stderr)})
}
