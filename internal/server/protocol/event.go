// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// Event is a kind of entry in the journal.
type Event string

const (
	EventStarted       Event = "started"
	EventEnded         Event = "ended"
	EventFrozen        Event = "frozen"
	EventThawed        Event = "thawed"
	EventSwept         Event = "swept"
	EventStopRequested Event = "asked-to-stop"
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
	}
}

// Field is a field of an event, by the key that the report has for it. The server's arguments and environment
// are in none.
func Field(key, value string) systemd.JournalField {
	return systemd.JournalField{Name: "MCPSCOPE_" + strings.ToUpper(key), Value: value}
}

// LogIdentifier is the SYSLOG_IDENTIFIER of the server's stderr.
func LogIdentifier(server, id string) string { return DirectoryName(server, id) }

type Subject struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Client  ClientFacts `json:"client"`
	Backend Backend     `json:"backend"`
}

// Log writes an event, if there is a journal that takes it at once.
func (s Subject) Log(e Event, p systemd.Priority, what string, more ...systemd.JournalField) {
	pid := ""
	if s.Client.PID > 0 {
		pid = strconv.Itoa(s.Client.PID)
	}
	_ = systemd.SendJournal(p, append([]systemd.JournalField{
		{Name: "MESSAGE", Value: fmt.Sprintf("%s (%s) %s", s.Name, s.ID, what)},
		{Name: "MESSAGE_ID", Value: MessageIDs()[e]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		Field("event", string(e)), Field("id", s.ID), Field("name", s.Name),
		Field("client", s.Client.Name), Field("client_pid", pid),
		Field("client_unit", s.Client.Unit), Field("backend", string(s.Backend)),
	}, more...)...)
}

// Stderr is where the server's stderr goes.
type Stderr string

const (
	// StderrInherit is the client's own.
	StderrInherit Stderr = "inherit"
	// StderrJournal is a stream of the journal; without a journal it is the client's stderr.
	StderrJournal Stderr = "journal"
)

// StderrKept begins the note of a server that was to have the journal's; the reason follows.
const StderrKept = "stderr is the client's: "

// ParseStderr accepts "inherit" and "journal".
func ParseStderr(s string) (Stderr, error) { return oneOf(s, StderrInherit, StderrJournal) }
