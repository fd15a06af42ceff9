// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Attributes are what is recorded about a server in attributes of its payload. A process of the server's user
// may have overwritten them.
type Attributes struct{ of *ControlGroup }

// Attributes returns what is recorded about the server, in attributes of the payload.
func (g *ControlGroup) Attributes() Attributes { return Attributes{g} }

// Register sets the attribute that an orphan is found by.
func (a Attributes) Register(c *protocol.Config) error {
	if a.of.IsTree() { // the page has them
		return nil
	}
	return a.of.Payload.SetAttr(AttrArmed, string(protocol.Encode(&c.Facts)))
}

// Facts reads the facts of the server from the group. A process of its user may have overwritten them:
// then they are the defaults.
func (a Attributes) Facts() protocol.Facts {
	var f protocol.Facts
	text, _, _ := a.of.Payload.Attr(AttrArmed) // none, if it can't be read
	if s := page.StartedIn(text); s != nil {
		return protocol.FactsOf(s, a.of.Dir)
	}
	if protocol.Decode([]byte(text), &f) != nil {
		return protocol.Facts{Policy: policy.Default()}
	}
	return f
}

// Disarm releases the group: no sweep stops its members.
func (a Attributes) Disarm() error {
	if a.of.IsTree() { // no sweep finds it
		return nil
	}
	return a.of.Payload.RemoveAttr(AttrArmed)
}

// record sets an attribute that can be done without.
func (a Attributes) record(attr, text string) {
	if !a.of.IsTree() {
		_ = a.of.Payload.SetAttr(attr, text) // members can fill the space for attributes
	}
}

// Note records remarks on the start.
func (a Attributes) Note(notes []string) { a.record(AttrNotes, NotesText(notes)) }

// AddNote records one more remark.
func (a Attributes) AddNote(note string) {
	if a.of.IsTree() {
		return
	}
	before, _, _ := a.of.Payload.Attr(AttrNotes) // none, if it can't be read
	notes := strings.Split(before, "\n")
	if !slices.Contains(notes, note) {
		a.Note(append(notes, note))
	}
}

// SetCause records the cause of a stop.
func (a Attributes) SetCause(why causes.Cause) { a.record(AttrEnding, string(why)) }

// Cause reads the recorded cause of a stop, or "". It can be any text. For a tree it is on the page.
func (a Attributes) Cause() causes.Cause {
	if a.of.IsTree() {
		return ""
	}
	text, _, _ := a.of.Payload.Attr(AttrEnding) // none, if it can't be read
	return causes.Cause(text)
}

// RecordRequest records a request of a stop for the next guard: the present guard may be killed before it
// reacts. A stop that is under way keeps its cause.
func (a Attributes) RecordRequest() {
	if a.Cause() == "" {
		a.SetCause(causes.StopRequested)
	}
}

// AskToStop requests the stop of one server of a gateway. All of them have one guard, so a signal to that
// could not name the server. Instead the request is an attribute of the group, and an event of the group has
// the helper read it: a freeze changes cgroup.events, which the helper polls.
func (a Attributes) AskToStop() error {
	if err := a.of.Payload.SetAttr(AttrEnding, string(causes.StopRequested)); err != nil {
		return proc.IgnoreGone(fmt.Errorf("request a stop: %w", err))
	}
	// A helper that has read the request thaws the group, so it is no failure if the freeze is never seen.
	frozen := false
	for try := 0; try < 100 && !frozen; try++ { // a busy machine freezes late
		frozen = freeze.Freeze(a.of.Payload)
	}
	return proc.IgnoreGone(a.of.Payload.Thaw())
}

// Refused adds a note: the manager does not have the scope.
func (a Attributes) Refused(why error) {
	a.AddNote("no scope, but a directory that systemd does not know of: " + why.Error())
}

// Engine is the container engine that runs the server, or "" for another user's server. The server can
// write the attribute, so only known engines count.
func (a Attributes) Engine() string {
	engine := a.Facts().Engine
	if a.of.Membership().Owner() != os.Getuid() || protocol.EngineOf([]string{engine, "run"}) != engine {
		return ""
	}
	return engine
}
