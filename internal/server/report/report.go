// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package report writes one line and one journal entry when a server has ended.
package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Report is the line for --report. Fields are only ever added.
type Report struct {
	Version         int                  `json:"version"`
	ID              string               `json:"id"`
	Name            string               `json:"name"`
	Backend         protocol.Backend     `json:"backend"`
	Client          protocol.ClientFacts `json:"client"`
	Cause           protocol.Cause       `json:"cause"`
	Signal          string               `json:"signal,omitempty"` // for the cause "signal"
	Started         time.Time            `json:"started"`
	Ended           time.Time            `json:"ended"`
	Seconds         float64              `json:"seconds"`
	ExitStatus      *int                 `json:"exit_status,omitempty"`
	ExitSignal      string               `json:"exit_signal,omitempty"`
	CPUSeconds      *float64             `json:"cpu_seconds,omitempty"`
	MemoryPeakBytes *uint64              `json:"memory_peak_bytes,omitempty"`
	Limits          map[string]string    `json:"limits,omitempty"`
	OutOfMemory     *OutOfMemory         `json:"out_of_memory,omitempty"`
	PIDsRefused     *PIDsRefused         `json:"pids_refused,omitempty"`
	Killed          []Killed             `json:"killed,omitempty"`
	KilledTotal     int                  `json:"killed_total"`
	Stuck           []string             `json:"stuck,omitempty"`
	Notes           []string             `json:"notes,omitempty"`
	// Error is set if the server could not be started. The other figures are then zero.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Killed is a member that did not exit on SIGTERM.
type Killed struct {
	PID     int    `json:"pid"`
	Name    string `json:"name"`
	Command string `json:"command,omitempty"`
}

const (
	KilledMost  = 16          // members that a report names
	reportBound = time.Second // for the write of the report
)

// String has no arguments, which may be secrets.
func (k Killed) String() string { return fmt.Sprintf("process %d (%s)", k.PID, k.Name) }

func New(c *protocol.Config, why protocol.Cause) *Report {
	now := time.Now()
	started := time.Unix(0, c.Started)
	return &Report{
		Version: protocol.ProtocolVersion, ID: c.Group.ID, Name: c.Name, Backend: c.Group.Backend,
		Client: c.Client, Cause: why,
		Started: started.UTC(), Ended: now.UTC(), Seconds: now.Sub(started).Seconds(),
	}
}

func (r *Report) SetStatus(ws unix.WaitStatus) {
	if ws.Signaled() {
		r.ExitSignal = unix.SignalName(ws.Signal())
		return
	}
	status := ws.ExitStatus()
	r.ExitStatus = &status
}

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

// Wanted reports whether there is a journal, or a descriptor for the line (-1 for none).
func Wanted(fd int) bool { return fd >= 0 || systemd.JournalExists() }

// Write makes one write(2) to fd, unless that is -1, so that lines of several servers in one file do not
// mix. If a pipe is full it waits for a bounded time.
func (r *Report) Write(fd int) {
	if fd < 0 {
		return
	}
	line, _ := json.Marshal(r) // numbers, texts, and lists of these
	line = append(line, '\n')
	written := make(chan struct{})
	go func() {
		_, _ = unix.Write(fd, line) // no process is left for an error
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(reportBound):
	}
}

// OutOfMemory: the kernel has killed members for lack of memory.
type OutOfMemory struct {
	Kills uint64 `json:"oom_kills"`
	// LimitBytes is nil if the limit belongs to a unit or slice.
	LimitBytes *uint64 `json:"memory_max_bytes,omitempty"`
	PeakBytes  *uint64 `json:"memory_peak_bytes,omitempty"`
}

// PIDsRefused: members could not fork.
type PIDsRefused struct {
	Times uint64  `json:"times"`
	Limit *uint64 `json:"pids_max,omitempty"`
}

// LogStart writes the event of a start to the journal.
func LogStart(about protocol.Subject, stderr protocol.Stderr) {
	text := fmt.Sprintf("started by %s[%d], %s", about.Client.Name, about.Client.PID, about.Backend)
	about.Log(protocol.EventStarted, systemd.Info, text,
		protocol.Field("stderr", string(stderr)))
}

// Log writes the event of the end to the journal.
func (r *Report) Log() {
	fields := []systemd.JournalField{
		protocol.Field("cause", string(r.Cause)),
		protocol.Field("seconds", fmt.Sprintf("%.3f", r.Seconds)),
	}
	priority := systemd.Info
	text := fmt.Sprintf("ended after %v: %s", r.Ended.Sub(r.Started).Round(time.Millisecond), r.Cause)
	add := func(key, value, said string) {
		if value != "" {
			fields, text = append(fields, protocol.Field(key, value)), text+said+value
		}
	}
	number := func(key string, n *uint64, said string) {
		if n != nil {
			add(key, strconv.FormatUint(*n, 10), said)
		}
	}
	add("signal", r.Signal, " ")
	if r.ExitStatus != nil {
		add("exit_status", strconv.Itoa(*r.ExitStatus), ", exit status ")
	}
	add("exit_signal", r.ExitSignal, ", by ")
	if r.CPUSeconds != nil {
		add("cpu_seconds", fmt.Sprintf("%.3f", *r.CPUSeconds), ", seconds of CPU ")
	}
	number("memory_peak_bytes", r.MemoryPeakBytes, ", peak memory ")
	if r.KilledTotal > 0 {
		priority = systemd.Notice
		add("killed_total", strconv.Itoa(r.KilledTotal), ", members that were killed: ")
	}
	for _, k := range r.Killed {
		add("killed", k.String(), "; ")
	}
	if o := r.OutOfMemory; o != nil {
		priority = systemd.Warning
		number("oom_kills", &o.Kills, ", members that the kernel killed for lack of memory: ")
		number("memory_max_bytes", o.LimitBytes, ", limit ")
	}
	if p := r.PIDsRefused; p != nil {
		priority = systemd.Warning
		number("pids_refused", &p.Times, ", failed forks: ")
		number("pids_max", p.Limit, ", limit ")
	}
	for _, stuck := range r.Stuck {
		add("stuck", stuck, ", left: ")
	}
	about := protocol.Subject{ID: r.ID, Name: r.Name, Client: r.Client, Backend: r.Backend}
	about.Log(protocol.EventEnded, priority, text, fields...)
}
