// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import "strings"

// What attrScope says.
const (
	unasked = "unasked" // no manager knows of it
	asked   = "asked"
	taken   = "taken"
)

// LeftToManager tells whether systemd removes the group as soon as nobody is in it. Nobody else may then: a removal keeps it
// from hearing of that, and it has the scope run for ever.
func (g *ControlGroup) LeftToManager() bool {
	if !g.Managed {
		return false
	}
	said, _, err := g.Payload.Attr(attrScope) // nothing, of a directory that systemd has made
	return err != nil || said != unasked
}

// onlyAsked tells whether no manager has said that it has the group.
func (g *ControlGroup) onlyAsked() bool {
	said, _, _ := g.Payload.Attr(attrScope) // nothing, if it can't be read
	return said == asked
}

// Ask says that a manager is about to be asked to take the group over. It is false if the server has ended: its supervisor may have
// seen before this that the group is its own to remove.
func (g *ControlGroup) Ask() bool {
	if g.Payload.SetAttr(attrScope, asked) == nil && Populated(g.Payload) {
		return true
	}
	g.Refused(nil)
	return false
}

// Refused says that no manager has it. A note says why.
func (g *ControlGroup) Refused(why error) {
	_ = g.Payload.SetAttr(attrScope, unasked) // gone is as good
	if why != nil {
		before, _, _ := g.Payload.Attr(AttrNotes) // none, if it can't be read
		g.Note(strings.Split(strings.TrimSpace(before+"\nno scope, but a directory that systemd does not know of: "+why.Error()), "\n"))
	}
}

// Taken says that its manager has it.
func (g *ControlGroup) Taken() { _ = g.Payload.SetAttr(attrScope, taken) } // as above
