// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// eventVersion is that of the JSON of events, in which fields are only ever added.
const eventVersion = 1

// eventView is an event as events shows it: sizes in bytes, times in seconds. Any process of
// that uid may have written it.
type eventView struct {
	Version     int          `json:"version"`
	Time        time.Time    `json:"time"`
	Event       string       `json:"event"`
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	UID         int          `json:"uid"`
	Backend     string       `json:"backend,omitempty"`
	Client      *processView `json:"client,omitempty"`
	ClientUnit  string       `json:"client_unit,omitempty"`
	Stderr      string       `json:"stderr,omitempty"`
	Cause       string       `json:"cause,omitempty"`
	Signal      string       `json:"signal,omitempty"`
	ExitStatus  *int         `json:"exit_status,omitempty"`
	ExitSignal  string       `json:"exit_signal,omitempty"`
	Seconds     *float64     `json:"seconds,omitempty"`
	CPU         *float64     `json:"cpu_seconds,omitempty"`
	MemoryPeak  *uint64      `json:"memory_peak_bytes,omitempty"`
	Killed      []string     `json:"killed,omitempty"`
	KilledTotal *int         `json:"killed_total,omitempty"`
	OOMKills    *int         `json:"oom_kills,omitempty"`
	MemoryMax   *uint64      `json:"memory_max_bytes,omitempty"`
	Biggest     []string     `json:"biggest,omitempty"`
	PIDsRefused *int         `json:"pids_refused,omitempty"`
	PIDsMax     *int         `json:"pids_max,omitempty"`
	Stuck       []string     `json:"stuck,omitempty"`
	Note        string       `json:"note,omitempty"`
	By          string       `json:"by,omitempty"`
}

// viewEvent reads an entry; ok is false for one that is no event of ours.
func viewEvent(e entry) (v eventView, ok bool) {
	micros, timeErr := strconv.ParseInt(e.first("__REALTIME_TIMESTAMP"), 10, 64)
	uid, uidErr := strconv.Atoi(e.first("_UID"))
	kind := scope.Event(e.first(scope.FieldEvent))
	at := time.UnixMicro(micros).UTC()
	if at.Year() < 1970 || at.Year() > 9999 || timeErr != nil || uidErr != nil || scope.MessageIDs()[kind] == "" || e.first(scope.FieldID) == "" {
		return v, false
	}
	v = eventView{
		Version: eventVersion, Time: at, Event: string(kind), ID: e.first(scope.FieldID), Name: e.first(scope.FieldName), UID: uid,
		Backend: e.first(scope.FieldBackend), ClientUnit: e.first(scope.FieldClientUnit), Stderr: e.first(scope.FieldStderr),
		Cause: e.first(scope.FieldCause), Signal: e.first(scope.FieldSignal), ExitSignal: e.first(scope.FieldExitSignal),
		Biggest: e[scope.FieldBiggest], PIDsRefused: whole(e.first(scope.FieldRefused)), PIDsMax: whole(e.first(scope.FieldPIDsMax)),
		MemoryMax: bytesIn(e.first(scope.FieldMemoryMax)), MemoryPeak: bytesIn(e.first(scope.FieldMemoryPeak)),
		Killed: e[scope.FieldKilled], Stuck: e[scope.FieldStuck], Note: e.first(scope.FieldNote), By: e.first(scope.FieldBy),
	}
	v.ExitStatus, v.KilledTotal, v.OOMKills = whole(e.first(scope.FieldExitStatus)), whole(e.first(scope.FieldTotal)), whole(e.first(scope.FieldOOMKills))
	v.Seconds, v.CPU = fraction(e.first(scope.FieldSeconds)), fraction(e.first(scope.FieldCPU))
	if pid := whole(e.first(scope.FieldClientPID)); pid != nil {
		v.Client = &processView{*pid, e.first(scope.FieldClient)}
	}
	return v, true
}

// parsed is nil for what is no number.
func parsed[N any](n N, err error) *N {
	if err != nil {
		return nil
	}
	return &n
}

func whole(s string) *int { return parsed(strconv.Atoi(s)) }

func bytesIn(s string) *uint64 { return parsed(strconv.ParseUint(s, 10, 64)) }

// fraction is nil for infinity, too, which JSON does not know.
func fraction(s string) *float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || x-x != 0 {
		return nil
	}
	return &x
}

// line is for people; on a terminal a long name is clipped.
func (v eventView) line(users, clip bool) string {
	name := v.Name
	if clip {
		name = fit(name, 32)
	}
	who := ""
	if users {
		who = fmt.Sprintf("%-6d", v.UID)
	}
	text := fmt.Sprintf("%s  %s%-8s  %-16s  %-13s  %s", v.Time.Local().Format(time.DateTime), who, v.ID, name, v.Event, v.detail())
	return cli.OneLine(strings.TrimRight(text, " "))
}

// detail is what belongs to the kind of event.
func (v eventView) detail() string {
	switch scope.Event(v.Event) {
	case scope.EventStarted:
		if v.Client == nil {
			return v.Backend
		}
		return fmt.Sprintf("%s, by %s[%d]", v.Backend, v.Client.Name, v.Client.PID)
	case scope.EventEnded:
		return v.end()
	case scope.EventKilled:
		text := strings.Join(v.Killed, "; ")
		if v.KilledTotal != nil && *v.KilledTotal > len(v.Killed) {
			text += fmt.Sprintf("; %d in all", *v.KilledTotal)
		}
		return text
	case scope.EventOutOfMemory:
		return v.outOfMemory()
	case scope.EventPIDsRefused:
		return v.refused()
	case scope.EventSwept:
		if len(v.Stuck) > 0 {
			return "but for " + strings.Join(v.Stuck, ", ")
		}
	case scope.EventNote:
		return v.Note
	case scope.EventStopRequested:
		return v.By
	}
	return ""
}

func (v eventView) end() string {
	parts := []string{strings.TrimSpace(v.Cause + " " + v.Signal)}
	add := func(there bool, format string, value any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	if v.ExitStatus != nil {
		add(true, "status %d", *v.ExitStatus)
	}
	add(v.ExitSignal != "", "by %s", v.ExitSignal)
	if v.Seconds != nil {
		add(true, "lived %s", humanSeconds(*v.Seconds))
	}
	if v.CPU != nil {
		add(true, "CPU %s", humanSeconds(*v.CPU))
	}
	if v.MemoryPeak != nil {
		add(true, "peak %s", humanBytes(*v.MemoryPeak))
	}
	add(len(v.Stuck) > 0, "left: %s", strings.Join(v.Stuck, ", "))
	return strings.Join(parts, ", ")
}
