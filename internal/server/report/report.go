// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package report writes one line and some journal entries when a server has ended.
package report

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
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

func (r *Report) Subject() protocol.Subject {
	return protocol.Subject{ID: r.ID, Name: r.Name, Client: r.Client, Backend: r.Backend}
}

// Wanted reports whether there is a journal, or a descriptor for the line (-1 for none).
func Wanted(fd int) bool { return fd >= 0 || systemd.JournalExists() }

// Log writes the events of a stop to the journal.
func (r *Report) Log() {
	if !systemd.JournalExists() {
		return
	}
	about := r.Subject()
	r.logShortages(about)
	r.logKilled(about)
	_ = systemd.SendJournal(r.entry(about)) // no process is left for an error
}

// Write makes one write(2) to fd, unless that is -1, so that lines of several servers in one file do not
// mix. If a pipe is full it waits for a bounded time.
func (r *Report) Write(fd int) {
	if fd < 0 {
		return
	}
	line := append(appendJSON(nil, reflect.ValueOf(r)), '\n')
	written := make(chan struct{})
	go func() {
		_, _ = unix.Write(fd, line) // as above
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

func (r *Report) entry(about protocol.Subject) []byte {
	fields := []systemd.JournalField{
		{Name: protocol.FieldCause, Value: string(r.Cause)},
		{Name: protocol.FieldSeconds, Value: fmt.Sprintf("%.3f", r.Seconds)},
	}
	text := fmt.Sprintf("ended after %v: %s", r.Ended.Sub(r.Started).Round(time.Millisecond), r.Cause)
	add := func(name, value, said string) {
		if value != "" {
			fields, text = append(fields, systemd.JournalField{Name: name, Value: value}), text+said+value
		}
	}
	add(protocol.FieldSignal, r.Signal, " ")
	if r.ExitStatus != nil {
		add(protocol.FieldExitStatus, strconv.Itoa(*r.ExitStatus), ", exit status ")
	}
	add(protocol.FieldExitSignal, r.ExitSignal, ", by ")
	if r.CPUSeconds != nil {
		add(protocol.FieldCPU, fmt.Sprintf("%.3f", *r.CPUSeconds), ", seconds of CPU ")
	}
	if r.MemoryPeakBytes != nil {
		add(protocol.FieldMemoryPeak, strconv.FormatUint(*r.MemoryPeakBytes, 10), ", peak memory ")
	}
	for _, stuck := range r.Stuck {
		add(protocol.FieldStuck, stuck, ", left: ")
	}
	return about.Entry(protocol.EventEnded, systemd.Info, text, fields...)
}

func (r *Report) logKilled(about protocol.Subject) {
	if r.KilledTotal == 0 {
		return
	}
	fields := []systemd.JournalField{{Name: protocol.FieldTotal, Value: strconv.Itoa(r.KilledTotal)}}
	var all []string
	for _, k := range r.Killed {
		fields = append(fields, systemd.JournalField{Name: protocol.FieldKilled, Value: k.String()})
		all = append(all, k.String())
	}
	text := fmt.Sprintf("had to be killed, %d in all: %s", r.KilledTotal, strings.Join(all, "; "))
	about.Log(protocol.EventKilled, systemd.Notice, text, fields...)
}

func (r *Report) logShortages(about protocol.Subject) {
	var fields []systemd.JournalField
	add := func(name string, n *uint64, said string) string {
		if n == nil {
			return ""
		}
		fields = append(fields, systemd.JournalField{Name: name, Value: strconv.FormatUint(*n, 10)})
		return said + strconv.FormatUint(*n, 10)
	}
	if o := r.OutOfMemory; o != nil {
		text := "was out of memory: processes that the kernel killed" +
			add(protocol.FieldOOMKills, &o.Kills, ": ") +
			add(protocol.FieldMemoryMax, o.LimitBytes, ", limit ") +
			add(protocol.FieldMemoryPeak, o.PeakBytes, ", peak ")
		about.Log(protocol.EventOutOfMemory, systemd.Warning, text, fields...)
	}
	fields = nil
	if p := r.PIDsRefused; p != nil {
		text := "could not fork" + add(protocol.FieldRefused, &p.Times, ", times ") +
			add(protocol.FieldPIDsMax, p.Limit, ", limit ")
		about.Log(protocol.EventPIDsRefused, systemd.Warning, text, fields...)
	}
}
