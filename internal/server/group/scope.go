// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// What attrScope says.
const (
	unasked = "unasked" // no manager knows of it
	asked   = "asked"
	taken   = "taken"
)

// LeftToManager tells whether systemd removes the group as soon as nobody is in it. Nobody else may then: a removal keeps it
// from hearing of that, and it has the scope run for ever. The launcher that has asked knows by itself, for a server can have written the
// attribute.
func (g *ControlGroup) LeftToManager() bool {
	switch {
	case !g.Managed:
		return false
	case g.adopt != nil:
		return g.asked.Load()
	}
	said, _, err := g.Payload.Attr(attrScope) // nothing, of a directory that systemd has made
	return err != nil || said != unasked
}

// OnlyAsked tells whether a manager may never have read the request for the scope, whose launcher may have died.
func (g *ControlGroup) OnlyAsked() bool {
	said, _, _ := g.Payload.Attr(attrScope) // nothing, if it can't be read
	return said == asked
}

// EndsAtOnce tells whether a server ends that has just been started, before a scope is worth asking for.
func (g *ControlGroup) EndsAtOnce() bool {
	_, empty, err := g.Payload.Await(time.Now().Add(protocol.EndsWithin), IsEmpty)
	return err == nil && empty
}

// Ask says that a manager is about to be asked to take the group over. It is false if the server has ended.
func (g *ControlGroup) Ask() bool {
	if g.Payload.SetAttr(attrScope, asked) == nil && Populated(g.Payload) {
		g.asked.Store(true)
		return true
	}
	g.Refused(nil)
	return false
}

// Refused says that no manager has it. A note says why.
func (g *ControlGroup) Refused(why error) {
	g.asked.Store(false)
	_ = g.Payload.SetAttr(attrScope, unasked) // gone is as good
	if why != nil {
		before, _, _ := g.Payload.Attr(AttrNotes) // none, if it can't be read
		g.Note(strings.Split(strings.TrimSpace(before+"\nno scope, but a directory that systemd does not know of: "+why.Error()), "\n"))
	}
}

// Taken says that its manager has it.
func (g *ControlGroup) Taken(from protocol.Backend) {
	g.countLate(from)
	_ = g.Payload.SetAttr(attrScope, taken) // as above
}

// awaitAdoption returns when the manager has answered, or has had the time for it.
func (g *ControlGroup) awaitAdoption() {
	if g.adopted == nil {
		return
	}
	select {
	case <-g.adopted:
	case <-time.After(protocol.ForgottenAfter):
	}
}

// AwaitManager tells whether systemd has removed the scope, and gives it the time for that. It looks
// again and again: of inotify instances a user has 128, and those may be taken.
func (g *ControlGroup) AwaitManager() (removed bool) {
	for pause := time.Millisecond; pause < protocol.ForgottenAfter; pause *= 2 {
		top, err := g.Parent.Child(g.Dir)
		if err != nil {
			return true
		}
		_ = top.Close() // a directory
		time.Sleep(pause)
	}
	return false
}
