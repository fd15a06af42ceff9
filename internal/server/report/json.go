// SPDX-License-Identifier: Apache-2.0

//go:build linux

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// object is JSON as it grows. Package encoding/json reflects, and costs every program that links it 0.45 ms before
// its first use; the report is all that we write in it.
type object struct{ text []byte }

func (o *object) key(name string) {
	if len(o.text) > 0 && o.text[len(o.text)-1] != '{' {
		o.text = append(o.text, ',')
	}
	o.string(name)
	o.text = append(o.text, ':')
}

const hex = "0123456789abcdef"

// string writes what may be any bytes.
func (o *object) string(s string) {
	o.text = append(o.text, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			o.text = append(o.text, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			o.text = append(o.text, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		case r == '\u2028' || r == '\u2029': // which end a line in JavaScript
			o.text = append(o.text, `\u202`...)
			o.text = append(o.text, hex[r&0xf])
		default:
			o.text = utf8.AppendRune(o.text, r)
		}
	}
	o.text = append(o.text, '"')
}

// field writes a member that is always there.
func (o *object) field(name string, value any) {
	o.key(name)
	switch v := value.(type) {
	case string:
		o.string(v)
	case int:
		o.text = strconv.AppendInt(o.text, int64(v), 10)
	case uint64:
		o.text = strconv.AppendUint(o.text, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 0 // JSON has neither
		}
		o.text = strconv.AppendFloat(o.text, v, 'f', -1, 64)
	case time.Time:
		o.string(v.Format(time.RFC3339Nano))
	case []string:
		array(o, v, o.string)
	case func(*object):
		o.object(v)
	default:
		panic(fmt.Sprintf("no JSON for %T", v))
	}
}

func (o *object) object(fields func(*object)) {
	o.text = append(o.text, '{')
	fields(o)
	o.text = append(o.text, '}')
}

func array[T any](o *object, all []T, one func(T)) {
	o.text = append(o.text, '[')
	for i, v := range all {
		if i > 0 {
			o.text = append(o.text, ',')
		}
		one(v)
	}
	o.text = append(o.text, ']')
}

// given writes one that is left out where it is empty.
func given[T comparable](o *object, name string, value T) {
	if none := *new(T); value != none {
		o.field(name, value)
	}
}

// known writes one that is left out where it is not known.
func known[T any](o *object, name string, value *T) {
	if value != nil {
		o.field(name, *value)
	}
}

// list writes one that is left out where it has nothing in it.
func list[T any](o *object, name string, all []T, one func(T)) {
	if len(all) > 0 {
		o.key(name)
		array(o, all, one)
	}
}

// table is list for a map, by name.
func table[T any](o *object, name string, all map[string]T, value func(T) any) {
	if len(all) == 0 {
		return
	}
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	o.field(name, func(o *object) {
		for _, n := range names {
			o.field(n, value(all[n]))
		}
	})
}

// json is the report on one line, as its tags have it.
func (r *Report) json() []byte {
	var o object
	o.object(func(o *object) {
		o.field("version", r.Version)
		o.field("id", r.ID)
		o.field("name", r.Name)
		o.field("backend", string(r.Backend))
		o.field("client", func(o *object) { clientJSON(r.Client, o) })
		o.field("cause", string(r.Cause))
		given(o, "signal", r.Signal)
		o.field("started", r.Started)
		o.field("ended", r.Ended)
		o.field("seconds", r.Seconds)
		known(o, "exit_status", r.ExitStatus)
		given(o, "exit_signal", r.ExitSignal)
		known(o, "cpu_seconds", r.CPUSeconds)
		known(o, "memory_peak_bytes", r.MemoryPeakBytes)
		table(o, "limits", r.Limits, func(s string) any { return s })
		if r.OutOfMemory != nil {
			o.field("out_of_memory", r.OutOfMemory.json)
		}
		if p := r.PIDsRefused; p != nil {
			o.field("pids_refused", func(o *object) {
				o.field("times", p.Times)
				known(o, "pids_max", p.Limit)
			})
		}
		killed := func(k Killed) { o.object(k.json) }
		list(o, "killed", r.Killed, killed)
		o.field("killed_total", r.KilledTotal)
		list(o, "stuck", r.Stuck, o.string)
		list(o, "notes", r.Notes, o.string)
	})
	return o.text
}

func clientJSON(c protocol.ClientFacts, o *object) {
	o.field("pid", c.PID)
	given(o, "start_ticks", c.Start)
	o.field("name", c.Name)
	given(o, "unit", c.Unit)
}

func (k Killed) json(o *object) {
	o.field("pid", k.PID)
	o.field("name", k.Name)
	given(o, "command", k.Command)
	list(o, "facts", k.Facts, o.string)
}

func (m *OutOfMemory) json(o *object) {
	o.field("oom_kills", m.Kills)
	known(o, "memory_max_bytes", m.LimitBytes)
	known(o, "memory_peak_bytes", m.PeakBytes)
}
