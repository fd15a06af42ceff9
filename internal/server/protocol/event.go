// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

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

// Causes lists all causes. The position is the number on the page, so new ones are appended.
func Causes() []Cause {
	return []Cause{
		MainExited, MemoryExhausted, StdinClosed, StdoutClosed, ClientDied, ClientIdle, Signalled,
		LauncherGone, GuardGone, StopRequested, LifetimeOver, IdleTooLong,
	}
}

// Number is a cause on the page, 0 for none; CauseOf reads it.
func (c Cause) Number() uint32 { return uint32(slices.Index(Causes(), c) + 1) }

// CauseOf returns the cause with that number, or "".
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
	ByOOMD      bool              `json:"oomd,omitempty"`         // systemd-oomd has killed the whole group
	PIDsRefused uint64            `json:"pids_refused,omitempty"` // failed forks
	PIDsMax     *uint64           `json:"pids_max,omitempty"`
	Limits      map[string]string `json:"limits,omitempty"` // that were set, by their files
}

// Exhausted reports whether the kernel or systemd-oomd has killed the whole group.
func (f Figures) Exhausted() bool { return f.EndsWhole && f.OOMKills > 0 || f.ByOOMD }

// Event is the kind of an entry in the journal.
type Event string

const (
	EventStarted       Event = "started"
	EventEnded         Event = "ended"
	EventFrozen        Event = "frozen"
	EventThawed        Event = "thawed"
	EventSwept         Event = "swept"
	EventStopRequested Event = "asked-to-stop"
	EventUncontained   Event = "uncontained" // of a gateway's server, or of all of them
	EventDaemon        Event = "daemon"      // of a gateway: it is watched as well
)

// MessageIDs identify events in the journal. They never change.
func MessageIDs() map[Event]string {
	return map[Event]string{
		EventStarted:       "c3c54b04cd8149ca85498690168c08b9",
		EventEnded:         "91271e0caed64105a0c3c1d4802c3a93",
		EventFrozen:        "c4da185547cd46349f526b0af5700a60",
		EventThawed:        "ca55d3e560a845a9ba78ac3db41c27dd",
		EventSwept:         "a791711570c24d8980007a89a52bd556",
		EventStopRequested: "8b5ee0be042140a3a730cea457e60653",
		EventUncontained:   "5d0c2f7e94b14c0aa3f1c7be0f8d6e21",
		EventDaemon:        "0b7d3f3a5e1b4c1f9d0c6a8e4b2f7d93",
	}
}

// Field is a field of an event, by the key that the report has for it. The server's arguments and environment
// are in none.
func Field(key, value string) systemd.JournalField {
	return systemd.JournalField{Name: "MCPSCOPE_" + strings.ToUpper(key), Value: value}
}

// Subject is the server that an entry in the journal is about.
type Subject struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Client  ClientFacts `json:"client"`
	Backend Backend     `json:"backend"`
	Origin
}

// Log writes an event, if there is a journal that takes it at once.
func (s Subject) Log(e Event, p systemd.Priority, what string, more ...systemd.JournalField) {
	pid := strings.TrimPrefix(strconv.Itoa(s.Client.PID), "0") // "" without a client
	_ = systemd.SendJournal(p, append([]systemd.JournalField{
		{Name: "MESSAGE", Value: fmt.Sprintf("%s (%s) %s", s.Name, s.ID, what)},
		{Name: "MESSAGE_ID", Value: MessageIDs()[e]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		Field("event", string(e)), Field("id", s.ID), Field("name", s.Name),
		Field("client", s.Client.Name), Field("client_pid", pid),
		Field("client_unit", s.Client.Unit), Field("backend", string(s.Backend)),
		Field("project", s.Project), Field("session", s.Session),
	}, more...)...)
}

// Stderr is where the server's stderr goes.
type Stderr string

const (
	StderrInherit Stderr = "inherit" // the client's own
	StderrJournal Stderr = "journal" // a stream of the journal; without a journal the client's own
)
