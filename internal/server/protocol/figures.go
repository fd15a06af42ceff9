// SPDX-License-Identifier: Apache-2.0

package protocol

// Figures are the counters and limits of a group. A number is nil without its controller.
type Figures struct {
	MemoryPeak *uint64 `json:"memory_peak_bytes,omitempty"`
	MemoryMax  *uint64 `json:"memory_max_bytes,omitempty"`
	OOMKills   uint64  `json:"oom_kills,omitempty"` // members, for lack of memory
	EndsWhole  bool    `json:"-"`                   // the kernel kills the whole group then
	ByOOMD     bool    `json:"oomd,omitempty"`      // systemd-oomd has killed the whole group
	// SessionMax is the limit of the agent and all its servers together.
	SessionMax *uint64 `json:"session_memory_max_bytes,omitempty"`
	// SessionExhausted: members were killed by the limit of the session, and not by their own.
	SessionExhausted bool `json:"session_out_of_memory,omitempty"`
	// SessionKills are the members of the whole session that were killed for lack of memory.
	SessionKills uint64 `json:"-"`

	PIDsRefused uint64            `json:"pids_refused,omitempty"` // failed forks
	PIDsMax     *uint64           `json:"pids_max,omitempty"`
	Limits      map[string]string `json:"limits,omitempty"` // that were set, by their files
}

// Exhausted reports whether the kernel or systemd-oomd has killed the whole group.
func (f Figures) Exhausted() bool {
	return f.EndsWhole && f.OOMKills > 0 || f.ByOOMD || f.SessionExhausted
}

// Stderr is a value of --stderr.
type Stderr string

const (
	StderrInherit Stderr = "inherit" // the client's own
	StderrJournal Stderr = "journal" // a stream of the journal; without a journal the client's own
)
