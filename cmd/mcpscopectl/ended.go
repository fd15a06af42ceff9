// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// endedView is a server that has ended, as the journal tells: sizes in bytes, times in seconds. Fields are only ever
// added. Any process of that uid may have written it.
type endedView struct {
	ID          string        `json:"id"`
	Name        string        `json:"name"`
	UID         int           `json:"uid"`
	Backend     scope.Backend `json:"backend,omitempty"`
	Client      *processView  `json:"client,omitempty"`
	ClientUnit  string        `json:"client_unit,omitempty"`
	Started     *time.Time    `json:"started,omitempty"`
	Ended       *time.Time    `json:"ended,omitempty"`
	Cause       string        `json:"cause,omitempty"` // causeSwept for an orphan
	Signal      string        `json:"signal,omitempty"`
	StoppedBy   string        `json:"stopped_by,omitempty"` // who asked, if that is known
	ExitStatus  *int          `json:"exit_status,omitempty"`
	ExitSignal  string        `json:"exit_signal,omitempty"`
	Seconds     *float64      `json:"seconds,omitempty"`
	CPU         *float64      `json:"cpu_seconds,omitempty"`
	MemoryPeak  *uint64       `json:"memory_peak_bytes,omitempty"`
	KilledTotal int           `json:"killed_total"`
	Events      []eventView   `json:"events"`
}

// causeSwept is what stands for the cause of an orphan's end: nobody was left to tell of another.
const causeSwept = "swept"

// take adds an event.
func (s *endedView) take(v eventView) {
	s.Events = append(s.Events, v)
	if v.Client != nil {
		s.Client = v.Client
	}
	if v.ClientUnit != "" {
		s.ClientUnit = v.ClientUnit
	}
	if v.Backend != "" {
		s.Backend = scope.Backend(v.Backend)
	}
	switch scope.Event(v.Event) {
	case scope.EventStarted:
		s.Started = &v.Time
	case scope.EventStopRequested:
		s.StoppedBy = fmt.Sprintf("uid %d: %s", v.UID, v.By)
	case scope.EventKilled:
		if v.KilledTotal != nil {
			s.KilledTotal += *v.KilledTotal
		}
	case scope.EventSwept:
		s.Ended, s.Cause = &v.Time, causeSwept
	case scope.EventEnded:
		if s.Ended != nil && s.Cause != causeSwept {
			break // its launcher's word, about a supervisor that was killed when it had told this
		}
		s.Ended, s.Cause, s.Signal, s.ExitStatus, s.ExitSignal = &v.Time, v.Cause, v.Signal, v.ExitStatus, v.ExitSignal
		s.Seconds, s.CPU, s.MemoryPeak = v.Seconds, v.CPU, v.MemoryPeak
	}
}

// ended reads all servers that the journal knows, in the order of their first events. A user's event about a server is
// taken for one of that user's; root's stop, freeze and sweep for the server's own.
func (f *journalFlags) ended(wanted func(eventView) bool) ([]*endedView, error) {
	var all []*endedView
	byID := map[string]*endedView{}
	err := f.read(f.span(), func(v eventView) error {
		if !wanted(v) {
			return nil
		}
		s := byID[v.ID]
		if s == nil || s.UID != v.UID && v.UID != 0 {
			s = &endedView{ID: v.ID, Name: v.Name, UID: v.UID}
			byID[v.ID] = s
			all = append(all, s)
		}
		if s.UID == 0 && v.UID != 0 {
			s.UID = v.UID
		}
		s.take(v)
		return nil
	})
	return all, err
}

func (s *endedView) status() string {
	switch {
	case s.ExitSignal != "":
		return s.ExitSignal
	case s.ExitStatus != nil:
		return strconv.Itoa(*s.ExitStatus)
	}
	return "-"
}

func (s *endedView) cause() string { return strings.TrimSpace(s.Cause + " " + s.Signal) }

// listEnded prints those that have ended since, the oldest end first.
func (f *lsFlags) listEnded(io cli.Stdio) int {
	of := journalFlags{since: cmp.Or(f.since, aDayAgo()), allUsers: f.allUsers}
	all, err := of.ended(func(v eventView) bool {
		return f.client == "" || v.Client != nil && (f.client == strconv.Itoa(v.Client.PID) || f.client == v.Client.Name)
	})
	if err != nil {
		return cannotRead(io, err)
	}
	all = slices.DeleteFunc(all, func(s *endedView) bool { return s.Ended == nil })
	slices.SortStableFunc(all, func(a, b *endedView) int { return a.Ended.Compare(*b.Ended) })
	switch {
	case f.json:
		return showJSON(io, "list servers", struct {
			Version int          `json:"version"`
			Ended   []*endedView `json:"ended"`
		}{viewVersion, append([]*endedView{}, all...)})
	case f.quiet:
		for _, s := range all {
			fmt.Fprintln(io.Out, cli.OneLine(s.ID))
		}
	case len(all) == 0:
		sayNone(io.Out, "no server has ended"+map[bool]string{true: " within a day: --since looks further back"}[f.since == ""])
	default:
		writeEnded(io.Out, all, f.allUsers, widthOf(io.Out))
	}
	return cli.ExitOK
}

func writeEnded(out io.Writer, all []*endedView, users bool, width int) {
	columns := []column{
		{head: "ID"}, {head: "NAME", least: 10, most: 32}, {head: "ENDED"}, {head: "LIVED"}, {head: "CAUSE"}, {head: "STATUS"}, {head: "KILLED"}, {head: "PEAK"},
		{head: "CLIENT", least: 12, most: 24, clip: fitName},
	}
	if users {
		columns = append(columns, column{head: "UID"})
	}
	var lines [][]string
	for _, s := range all {
		lived, client := "-", "-"
		if s.Seconds != nil {
			lived = humanSeconds(*s.Seconds)
		}
		if s.Client != nil {
			client = clientText(*s.Client)
		}
		line := []string{s.ID, s.Name, s.Ended.Local().Format(time.DateTime), lived, s.cause(), s.status(), strconv.Itoa(s.KilledTotal), humanMemory(s.MemoryPeak), client}
		if users {
			line = append(line, strconv.Itoa(s.UID))
		}
		lines = append(lines, line)
	}
	writeLines(out, columns, lines, width, "UID", "CLIENT", "KILLED", "LIVED", "PEAK", "ID")
}

// findEnded finds by an id, else the newest of a name, else by the beginning of an id.
func findEnded(allUsers bool, arg string) (*endedView, error) {
	f := journalFlags{allUsers: allUsers}
	all, err := f.ended(func(v eventView) bool { return v.means(arg) })
	if err != nil {
		return nil, err
	}
	for _, is := range []func(*endedView) bool{
		func(s *endedView) bool { return s.ID == arg }, func(s *endedView) bool { return s.Name == arg }, func(*endedView) bool { return true },
	} {
		for _, s := range slices.Backward(all) {
			if is(s) {
				return s, nil
			}
		}
	}
	return nil, &unknownError{arg}
}

// write is for people.
func (s *endedView) write(out io.Writer, users bool) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", what, cli.OneLine(fmt.Sprintf(format, args...)))
	}
	line("name", "%s (%s)", s.Name, s.ID)
	switch {
	case s.Ended == nil:
		line("state", "gone, and nobody has said why: its supervisor and launcher were killed, or the journal has lost it")
	default:
		line("state", "ended %s, %s", s.Ended.Local().Format(time.DateTime), s.cause())
	}
	if s.StoppedBy != "" {
		line("stopped by", "%s", s.StoppedBy)
	}
	if s.ExitStatus != nil || s.ExitSignal != "" {
		line("exit status", "%s", s.status())
	}
	if s.Backend != "" {
		line("backend", "%s", s.Backend)
	}
	if s.ClientUnit != "" {
		line("client's unit", "%s", s.ClientUnit)
	}
	if s.Client != nil {
		line("client", "%s", clientText(*s.Client))
	}
	if s.Started != nil {
		line("started", "%s", s.Started.Local().Format(time.DateTime))
	}
	if s.Seconds != nil {
		line("lived", "%s", humanSeconds(*s.Seconds))
	}
	if s.CPU != nil {
		line("CPU", "%s", humanSeconds(*s.CPU))
	}
	if s.MemoryPeak != nil {
		line("memory", "at most %s", humanBytes(*s.MemoryPeak))
	}
	_ = w.Flush() // see cli.Output
	for _, v := range s.Events {
		fmt.Fprintln(out, "  "+v.line(users, false))
	}
}

// aDayAgo is for journalctl.
func aDayAgo() string { return fmt.Sprintf("@%d", time.Now().Add(-24*time.Hour).Unix()) }
