// SPDX-License-Identifier: Apache-2.0

// Package render prints servers: one record, which every view embeds, as tables, text and JSON.
//
// Nothing that a server, a client or a user has named can act on the terminal.
package render

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Server is a server, or a session, as every view shows it: sizes in bytes, times in seconds. An unknown
// figure is nil. The fields are in the order of JSON.
type Server struct {
	Identity
	Launcher int        `json:"launcher_pid,omitempty"`
	Guard    int        `json:"guard_pid,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Ended    *time.Time `json:"ended,omitempty"` // of a server that the journal has
	Age      float64    `json:"age_seconds"`     // from the start to now, or to the end
	Policy   string     `json:"policy,omitempty"`
	// Kept is what is kept, in place of a server.
	Kept *Kept `json:"kept,omitempty"`
	// Servers is how many are in a session.
	Servers int `json:"servers,omitempty"`
	Figures
	// Role is the Role of the server's protocol.Facts.
	Role string `json:"-"`
}

// Kept says of which server something is, and until when.
type Kept struct {
	Server string     `json:"server"`
	From   string     `json:"from"` // its id
	Until  *time.Time `json:"until,omitempty"`
}

// keptOf returns nil for a server.
func keptOf(of *protocol.Kept) *Kept {
	if of == nil {
		return nil
	}
	k := &Kept{Server: of.Server, From: of.From}
	if of.Until > 0 {
		until := time.Unix(0, of.Until).UTC()
		k.Until = &until
	}
	return k
}

// Ended is the state of a server that only the journal has.
const Ended fleet.State = "ended"

// Identity is a server, its state, and where it comes from.
type Identity struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	UID        int           `json:"uid"`
	Backend    names.Backend `json:"backend"`
	State      fleet.State   `json:"state"`
	Cause      causes.Cause  `json:"cause,omitempty"`
	Group      string        `json:"group,omitempty"`
	Unit       string        `json:"unit,omitempty"`
	Client     Process       `json:"client,omitzero"`
	ClientUnit string        `json:"client_unit,omitempty"`
	// InSession is the id of a session.
	InSession string `json:"in_session,omitempty"`
	protocol.Origin
}

// Figures are the resources that a server uses, and its limits.
type Figures struct {
	Processes int        `json:"processes"`
	CPU       float64    `json:"cpu_seconds"`
	Memory    *uint64    `json:"memory_bytes,omitempty"`
	Peak      *uint64    `json:"memory_peak_bytes,omitempty"`
	IdleSince *time.Time `json:"idle_since,omitempty"`
	Wakes     int        `json:"wakes,omitempty"`               // by input, while it was idle
	Before    uint64     `json:"memory_before_bytes,omitempty"` // before it was reclaimed last
	// MemoryFrom is where Memory comes from, if that is known.
	MemoryFrom memorySource `json:"memory_source,omitempty"`
	// Limits are the values in the files of the group.
	Limits      map[string]string `json:"limits,omitempty"`
	OOMKills    uint64            `json:"oom_kills,omitempty"`
	PIDsRefused uint64            `json:"pids_refused,omitempty"`
}

// Process is one that is no server.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// Text is the process for people. It has no pid if it is outside of the container that this process is in.
func (p Process) Text() string {
	if p.PID == 0 {
		return cmp.Or(p.Name, "-")
	}
	return fmt.Sprintf("%s[%d]", p.Name, p.PID)
}

// memorySource is where the figure of a server's memory comes from.
type memorySource string

const (
	// fromGroup is the kernel's count for the group of the server.
	fromGroup memorySource = "group"
	// fromScope is the same of the scope around that, which has the guard in it too.
	fromScope memorySource = "scope"
	// FromMembers is a sum over the processes, where the kernel has not counted from the start.
	FromMembers memorySource = "members"
)

// Limit is a limit that is a number.
func (f *Figures) Limit(file string) *uint64 { return number(f.Limits[file]) }

// CPULimit reads "QUOTA PERIOD" in cpu.max, in processors. Without a limit, the quota is "max".
func (f *Figures) CPULimit() (float64, bool) {
	quotaText, periodText, _ := strings.Cut(f.Limits["cpu.max"], " ")
	quota, err := strconv.ParseUint(quotaText, 10, 64)
	if err != nil {
		return 0, false
	}
	period, err := strconv.ParseUint(periodText, 10, 64)
	if err != nil || period == 0 {
		return 0, false
	}
	return float64(quota) / float64(period), true
}

// Measure returns an error for a server that has ended since it was listed.
func Measure(s *fleet.Listed) (Server, error) {
	used, err := s.Handle.Usage()
	if err != nil {
		return Server{}, err
	}
	v := Server{
		Identity: identityOf(s),
		Launcher: s.Launcher,
		Guard:    s.Guard,
		Policy:   policyOf(s),
		Kept:     keptOf(s.Kept),
		Figures:  figuresOf(used),
		Role:     s.Facts.Role(),
	}
	v.Wakes = s.Idle.Wakes
	v.Before = s.Idle.Before
	if s.State == fleet.Idle {
		since := time.Unix(0, s.Idle.Since).UTC()
		v.IdleSince = &since
	}
	if !s.Started.IsZero() {
		v.Started = &s.Started
		v.Age = max(time.Since(s.Started), 0).Seconds()
	}
	return v, nil
}

// policyOf is "" for what is kept.
func policyOf(s *fleet.Listed) string {
	if s.Kept != nil {
		return ""
	}
	return s.Facts.Policy.String()
}

func identityOf(s *fleet.Listed) Identity {
	return Identity{
		ID:         s.Placed.ID,
		Name:       s.Facts.Name,
		UID:        s.UID,
		Backend:    s.Placed.Backend,
		State:      s.State,
		Cause:      s.Cause,
		Group:      s.Group,
		Unit:       s.Unit,
		Client:     Process{PID: s.Facts.Client.PID, Name: s.Facts.Client.Name},
		ClientUnit: s.Facts.Client.Unit,
		InSession:  s.SessionID(),
		Origin:     s.Facts.Origin,
	}
}

func figuresOf(used fleet.Usage) Figures {
	f := Figures{
		Processes:   len(used.PIDs),
		CPU:         used.CPU.Seconds(),
		Peak:        used.MemoryPeak,
		Limits:      used.Limits,
		OOMKills:    used.OOMKills,
		PIDsRefused: used.PIDsRefused,
	}
	memory, isSum := used.MemoryNow()
	switch {
	case isSum:
		f.setSum(memory)
	case used.WithGuard:
		f.Memory = &memory
		f.MemoryFrom = fromScope
	default:
		f.Memory = &memory
		f.MemoryFrom = fromGroup
	}
	return f
}

// AddMembers sums up the memory of processes that are in no group.
func (f *Figures) AddMembers(pids []int) { f.setSum(proc.SumMemory(pids)) }

// setSum sets a sum over processes; 0 is unknown.
func (f *Figures) setSum(memory uint64) {
	if memory > 0 {
		f.Memory = &memory
		f.Peak = nil
		f.MemoryFrom = FromMembers
	}
}

// number returns nil for a text that is not one, such as "max".
func number(text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
