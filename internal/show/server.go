// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package show prints servers: one record, which every view embeds, as tables, text and JSON.
//
// Nothing that a server, a client or a user has named can act on the terminal.
package show

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// jsonVersion is that of all JSON about servers, in which fields are only ever added.
const JsonVersion = 1

// view is a server as ls and inspect show it: sizes in bytes, times in seconds.
type Server struct {
	ID         string           `json:"id"`
	Name       string           `json:"name"`
	UID        int              `json:"uid"`
	Backend    protocol.Backend `json:"backend"`
	State      fleet.State      `json:"state"`
	Cause      protocol.Cause   `json:"cause,omitempty"`
	Group      string           `json:"group,omitempty"`
	Unit       string           `json:"unit,omitempty"`
	Client     Process          `json:"client"`
	ClientUnit string           `json:"client_unit,omitempty"`
	Launcher   int              `json:"launcher_pid,omitempty"`
	Supervisor int              `json:"supervisor_pid,omitempty"`
	Started    *time.Time       `json:"started,omitempty"`
	Age        float64          `json:"age_seconds"`
	Policy     string           `json:"policy,omitempty"`
	Processes  int              `json:"processes"`
	CPU        float64          `json:"cpu_seconds"`
	Memory     *uint64          `json:"memory_bytes,omitempty"`
	Peak       *uint64          `json:"memory_peak_bytes,omitempty"`
	// MemoryFrom is where Memory comes from, if that is known.
	MemoryFrom memorySource `json:"memory_source,omitempty"`
	// Limits are what the files say that were set.
	Limits map[string]string `json:"limits,omitempty"`
}

type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// limit is a limit that is a number.
func (v *Server) Limit(file string) *uint64 { return parseNumber(v.Limits[file]) }

// look measures a server. One that has ended since it was listed gives an error.
func Measure(s *fleet.Listed) (Server, error) {
	f, err := measure(s)
	if err != nil {
		return Server{}, err
	}
	v := Server{
		ID: s.ID, Name: s.Name, UID: s.UID, Backend: s.Backend, State: s.State, Cause: s.Cause, Group: s.Group, Unit: s.Unit,
		Client: Process{s.Client.PID, s.Client.Name}, ClientUnit: s.Client.Unit, Launcher: s.Launcher, Supervisor: s.Supervisor,
		Age: s.Age().Seconds(), Policy: s.Policy,
		Processes: f.Processes, CPU: f.CPU.Seconds(), Memory: f.Memory, Peak: f.PeakBytes, MemoryFrom: f.memoryFrom, Limits: f.Limits,
	}
	if !s.Started.IsZero() {
		v.Started = &s.Started
	}
	return v, nil
}
