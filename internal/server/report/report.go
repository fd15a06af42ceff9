// SPDX-License-Identifier: Apache-2.0

// Package report writes one line and one journal entry when a server has ended.
package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/journal"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// SignalName is the name of a signal, as systemd and kill(1) take it; "" for none.
func SignalName(sig unix.Signal) string {
	const minimum = 34 // SIGRTMIN of the C library, which needs 32 and 33
	switch {
	case sig == minimum:
		return "SIGRTMIN"
	case sig > minimum:
		return fmt.Sprintf("SIGRTMIN+%d", sig-minimum)
	case sig > 0 && unix.SignalName(sig) == "":
		return fmt.Sprintf("SIG%d", sig)
	}
	return unix.SignalName(sig)
}

// Report is the line for --report. Fields are only ever added.
type Report struct {
	Version int `json:"version"`
	journal.Subject
	Cause  causes.Cause `json:"cause"`
	Signal string       `json:"signal,omitempty"` // for the cause "signal"
	// ClientEnded is set if the client had exited by the end of the server, whatever came first.
	ClientEnded bool      `json:"client_ended,omitempty"`
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended"`
	Seconds     float64   `json:"seconds"`
	ExitStatus  *int      `json:"exit_status,omitempty"`
	ExitSignal  string    `json:"exit_signal,omitempty"`
	CPUSeconds  *float64  `json:"cpu_seconds,omitempty"`
	protocol.Figures
	// Stopped are the names of the processes beside the main process that were there when the stop began.
	Stopped      []string `json:"stopped,omitempty"`
	StoppedTotal int      `json:"stopped_total,omitempty"`
	Killed       []Killed `json:"killed,omitempty"`
	KilledTotal  int      `json:"killed_total,omitempty"`
	Stuck        []string `json:"stuck,omitempty"`
	// Kept are those that outlive the server, since a pattern keeps them.
	Kept []Kept `json:"kept,omitempty"`
	// InUse are members that others used when the stop began.
	InUse []InUse  `json:"in_use,omitempty"`
	Notes []string `json:"notes,omitempty"`
	// Error is set if the server could not be started. The other figures are then zero.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// Kept are a daemon and what belongs to it, under the id that mcpscope stop takes.
type Kept struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// InUse is a member that ended with its server although others used it.
type InUse struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
	Use  string `json:"use"`
}

// String has the line that lets such a process stay.
func (u InUse) String() string {
	const text = "process %d (%s) was in use: %s; keep = [%q] lets it stay"
	return fmt.Sprintf(text, u.PID, u.Name, u.Use, u.Name)
}

// Killed is a member that did not exit on SIGTERM.
type Killed struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

const (
	NamedMost   = 16          // members that a report names
	reportBound = time.Second // for the write of the report
)

func (k Killed) String() string { return fmt.Sprintf("process %d (%s)", k.PID, k.Name) }

// New returns the report of a server that ends for that cause.
func New(c *protocol.Config, why causes.Cause) *Report {
	now := time.Now()
	started := time.Unix(0, c.Facts.Started)
	return &Report{
		Version: protocol.ProtocolVersion, Subject: journal.SubjectOf(c), Cause: why,
		Started: started.UTC(), Ended: now.UTC(), Seconds: now.Sub(started).Round(time.Millisecond).Seconds(),
	}
}

// Wanted reports whether there is a journal, or a descriptor for the line (-1 for none).
func Wanted(fd int) bool { return fd >= 0 || systemd.JournalExists() }

// Write makes one write(2) to fd, unless that is -1, so that lines of several servers in one file do not mix.
// If a pipe is full it waits for a bounded time.
func (r *Report) Write(fd int) {
	if fd < 0 { // a timer needs descriptors, which may have run out
		return
	}
	line, _ := json.Marshal(r) // numbers, texts, and lists of these
	line = append(line, '\n')
	const small = 4096 // PIPE_BUF: a pipe that is writable has room for that (pipe(7))
	if len(line) <= small && linux.AwaitUntil(time.Now(), fd, unix.POLLOUT) {
		_, _ = unix.Write(fd, line) // no process is left for an error
		return
	}
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

// LogFailure writes to the journal that a server was not started, since many clients drop the stderr of a
// server. text is the reason, on one line and without arguments.
func LogFailure(c *protocol.Config, text string) {
	journal.SubjectOf(c).Log(journal.Failed, systemd.Warning, "was not started: "+text)
}

// LogStart writes the start of a server to the journal.
func LogStart(c *protocol.Config) {
	text := fmt.Sprintf("started by %s[%d], %s", c.Facts.Client.Name, c.Facts.Client.PID, c.Group.Backend)
	stderr := journal.Field("stderr", string(c.Output.Stderr))
	journal.SubjectOf(c).Log(journal.Started, systemd.Info, text, stderr)
}

// logged are the keys of a report that its event has. Arguments, which may be secrets, are in none of them.
var logged = []string{
	"signal", "exit_status", "exit_signal", "cpu_seconds", "memory_peak_bytes", "memory_max_bytes",
	"session_memory_max_bytes", "session_out_of_memory", "oom_kills",
	"pids_refused", "pids_max", "stopped_total", "killed_total",
}

// Log writes the end of the server to the journal.
func (r *Report) Log() {
	fields := []systemd.JournalField{
		journal.Field("cause", string(r.Cause)), journal.Field("seconds", fmt.Sprint(r.Seconds)),
	}
	add := func(key, value string) { fields = append(fields, journal.Field(key, value)) }
	var values map[string]json.RawMessage
	line, _ := json.Marshal(r)        // as in Write
	_ = json.Unmarshal(line, &values) // it was just written
	for _, key := range logged {
		if value, known := values[key]; known {
			add(key, strings.Trim(string(value), `"`))
		}
	}
	for _, stopped := range r.Stopped {
		add("stopped", stopped)
	}
	for _, k := range r.Killed {
		add("killed", k.String())
	}
	for _, u := range r.InUse {
		add("in_use", u.String())
	}
	for _, stuck := range r.Stuck {
		add("stuck", stuck)
	}
	priority := systemd.Info
	switch {
	case r.OOMKills > 0 || r.PIDsRefused > 0:
		priority = systemd.Warning
	case r.StoppedTotal+r.KilledTotal > 0:
		priority = systemd.Notice
	}
	r.Subject.Log(journal.Ended, priority, r.Sentence(), fields...)
}
