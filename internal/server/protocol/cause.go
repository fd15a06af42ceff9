// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import "slices"

// Cause is why a server came to its end. The first one wins.
type Cause string

const (
	MainExited      Cause = "main-exited"
	MemoryExhausted Cause = "out-of-memory" // and the kernel killed all members
	StdinClosed     Cause = "stdin-closed"
	StdoutClosed    Cause = "stdout-closed"
	ClientDied      Cause = "client-died"
	ClientIdle      Cause = "client-died-idle"
	Signalled       Cause = "signal"
	LauncherGone    Cause = "launcher-gone"
	GuardGone       Cause = "guard-gone"
	StopRequested   Cause = "stop-requested"
	LifetimeOver    Cause = "max-lifetime"
	IdleTooLong     Cause = "idle-timeout"
)

// Causes are all that there are.
func Causes() []Cause {
	return []Cause{
		MainExited, MemoryExhausted, StdinClosed, StdoutClosed, ClientDied, ClientIdle, Signalled,
		LauncherGone, GuardGone, StopRequested, LifetimeOver, IdleTooLong,
	}
}

// Number is a cause on the page, 0 for none; CauseOf reads it.
func (c Cause) Number() uint32 { return uint32(slices.Index(Causes(), c) + 1) }

func CauseOf(number uint32) Cause {
	if all := Causes(); number > 0 && int(number) <= len(all) {
		return all[number-1]
	}
	return ""
}

// Figures are the counters and limits of a group. A number is nil without its controller.
type Figures struct {
	MemoryPeak  *uint64           `json:"memory_peak_bytes,omitempty"`
	MemoryMax   *uint64           `json:"memory_max_bytes,omitempty"`
	OOMKills    uint64            `json:"oom_kills,omitempty"`    // members, for lack of memory
	EndsWhole   bool              `json:"-"`                      // the kernel kills the whole group then
	PIDsRefused uint64            `json:"pids_refused,omitempty"` // failed forks
	PIDsMax     *uint64           `json:"pids_max,omitempty"`
	Limits      map[string]string `json:"limits,omitempty"` // that were set, by their files
}

// Exhausted reports whether the kernel has killed the whole group. f is nil for a tree.
func (f *Figures) Exhausted() bool { return f != nil && f.EndsWhole && f.OOMKills > 0 }
