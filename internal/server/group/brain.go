// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func (g *ControlGroup) Placed() protocol.Placed {
	return protocol.Placed{ID: g.ID, Dir: g.Dir, Backend: g.backend, Managed: g.Managed}
}

func (g *ControlGroup) Members() Payload {
	if g.tree != nil {
		return g.tree
	}
	return g.Payload
}

// Events is a descriptor with an event when the group may be empty, or -1.
func (g *ControlGroup) Events() int {
	if g.tree != nil {
		return -1
	}
	fd, err := g.Payload.OpenFile("cgroup.events", unix.O_RDONLY)
	if err != nil {
		return -1 // the brain polls
	}
	return fd
}

// Directories are those of members and of the guard; -1 for none.
func (g *ControlGroup) Directories() (payload, leaf int) {
	payload, leaf = -1, -1
	if g.Payload != nil {
		payload = g.Payload.FD()
	}
	if g.Guards != nil {
		leaf = g.Guards.FD()
	}
	return payload, leaf
}

// MoveGuard makes a leaf for the guard in the scope. A directory with a process cannot hand controllers
// down.
func (g *ControlGroup) MoveGuard(guard int) error {
	leaf, err := g.Top.MkdirOpen(protocol.GuardsName, GroupMode)
	if err != nil {
		return err
	}
	g.Guards = leaf
	return leaf.Take(guard)
}

// Beside is the directory to sweep, or nil, and the name of this group in it. For a tree it is where the
// groups of the backend cgroup are: whatever keeps a server from having one can have been left by another
// server.
func (g *ControlGroup) Beside() (parent *cgroup.Group, own string) {
	if g.tree == nil {
		return g.Parent, g.Dir
	}
	here, err := hierarchy.OwnPosition()
	if err != nil {
		return nil, ""
	}
	defer here.Root.Close()
	parent, _ = here.Root.Child(path.Join(protocol.SliceName, strconv.Itoa(os.Getuid())))
	return parent, "" // nil, if no such server has run
}

// record sets an attribute for people only.
func (g *ControlGroup) record(attr, text string) {
	if g.tree == nil {
		_ = g.Payload.SetAttr(attr, text)
	}
}

// holds reports whether a cgroup path is in the payload: the id is unique.
func (g *ControlGroup) holds(where string) bool {
	return strings.Contains(where+"/", "/"+path.Join(g.Dir, protocol.PayloadName)+"/")
}

// Note records remarks on the start.
func (g *ControlGroup) Note(notes []string) {
	if text := NoteText(notes); text != "" {
		g.record(AttrNotes, text)
	}
}

const notesMost = 1000

func NoteText(notes []string) string {
	text := strings.Join(notes, "\n")
	return strings.ToValidUTF8(text[:min(len(text), notesMost)], "")
}

// Ending records the cause of a stop.
func (g *ControlGroup) Ending(why protocol.Cause) { g.record(AttrEnding, string(why)) }

// Adopt asks a manager to take the group over, if it is meant to be a scope.
func (g *ControlGroup) Adopt() {
	if g.adopt == nil || g.adopted != nil {
		return
	}
	g.adopted = make(chan struct{})
	go func() {
		defer close(g.adopted)
		g.adopt(g)
	}()
}
