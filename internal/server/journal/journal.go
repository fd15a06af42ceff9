// SPDX-License-Identifier: Apache-2.0

// Package journal writes events about servers to the journal of systemd.
package journal

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Event is the kind of an entry in the journal.
type Event string

const (
	Started       Event = "started"
	Ended         Event = "ended"
	Failed        Event = "failed" // nothing was started
	Frozen        Event = "frozen"
	Thawed        Event = "thawed"
	Swept         Event = "swept"
	StopRequested Event = "asked-to-stop"
	Uncontained   Event = "uncontained" // of a gateway's server, or of all of them
	Kept          Event = "kept"        // a daemon that a pattern keeps
	Note          Event = "note"        // about a gateway, such as a limit that its servers lack
	Daemon        Event = "daemon"      // of a gateway: it is watched as well
)

// MessageIDs identify events in the journal. They never change.
func MessageIDs() map[Event]string {
	return map[Event]string{
		Started:       "c3c54b04cd8149ca85498690168c08b9",
		Ended:         "91271e0caed64105a0c3c1d4802c3a93",
		Failed:        "7e2f1c8ad0934d6e9b51c0a4f6d8e317",
		Frozen:        "c4da185547cd46349f526b0af5700a60",
		Thawed:        "ca55d3e560a845a9ba78ac3db41c27dd",
		Swept:         "a791711570c24d8980007a89a52bd556",
		StopRequested: "8b5ee0be042140a3a730cea457e60653",
		Uncontained:   "5d0c2f7e94b14c0aa3f1c7be0f8d6e21",
		Kept:          "2f6c1d9be07a4c55b1a8d3f47c9e6012",
		Note:          "b9d78bedcd04402ab2e85ad9dea5da57",
		Daemon:        "0b7d3f3a5e1b4c1f9d0c6a8e4b2f7d93",
	}
}

// Field is a field of an event, by the key that the report has for it. The server's arguments and environment
// are in none.
func Field(key, value string) systemd.JournalField {
	return systemd.JournalField{Name: "MCPSCOPE_" + strings.ToUpper(key), Value: value}
}

// Subject is the server that an entry in the journal is about.
type Subject struct {
	ID      string               `json:"id"`
	Name    string               `json:"name"`
	Client  protocol.ClientFacts `json:"client"`
	Backend names.Backend        `json:"backend"`
	protocol.Origin
}

// SubjectOf is the server with that configuration.
func SubjectOf(c *protocol.Config) Subject {
	f := c.Facts
	return Subject{ID: c.Group.ID, Name: f.Name, Client: f.Client, Backend: c.Group.Backend, Origin: f.Origin}
}

// OwnerField says whose server an event is about. The journal records the uid of the writer, and root writes
// about the servers of others, too.
func OwnerField(uid int) systemd.JournalField { return Field("owner", strconv.Itoa(uid)) }

// Log writes an event, if there is a journal that takes it at once, and the server is no trial of doctor's.
// The server is one of the calling user, unless more has its owner.
func (s Subject) Log(e Event, p systemd.Priority, what string, more ...systemd.JournalField) {
	if s.Name == names.Trial {
		return
	}
	pid := ""
	if s.Client.PID != 0 {
		pid = strconv.Itoa(s.Client.PID)
	}
	owner := OwnerField(os.Getuid())
	hasOwner := func(f systemd.JournalField) bool { return f.Name == owner.Name }
	if !slices.ContainsFunc(more, hasOwner) {
		more = append(more, owner)
	}
	_ = systemd.SendJournal(p, append([]systemd.JournalField{
		{Name: "MESSAGE", Value: fmt.Sprintf("%s (%s) %s", s.Name, s.ID, what)},
		{Name: "MESSAGE_ID", Value: MessageIDs()[e]},
		{Name: "SYSLOG_IDENTIFIER", Value: "mcpscope"},
		Field("event", string(e)), Field("id", s.ID), Field("name", s.Name),
		Field("client", s.Client.Name), Field("client_pid", pid),
		Field("client_unit", s.Client.Unit), Field("backend", string(s.Backend)),
		Field("project", s.Project), Field("conversation", s.Conversation),
	}, more...)...)
}
