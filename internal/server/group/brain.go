// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func (g *ControlGroup) Placed() protocol.Placed {
	return protocol.Placed{ID: g.ID, Dir: g.Dir, Backend: g.backend, Managed: g.Managed}
}

func (g *ControlGroup) Members() Payload { return g.Payload }

func (g *ControlGroup) Events() int {
	fd, err := g.Payload.OpenFile("cgroup.events", unix.O_RDONLY)
	if err != nil {
		return -1 // the brain polls
	}
	return fd
}

func (g *ControlGroup) Directories() (payload, leaf int) {
	leaf = -1
	if g.Guards != nil {
		leaf = g.Guards.FD()
	}
	return g.Payload.FD(), leaf
}

// SetGuard sets the guard, which a manager moves to a scope.
func (g *ControlGroup) SetGuard(of Guarded) { g.guard = &of }

// MoveGuard makes a leaf for the guard in the scope. A directory with a process cannot hand controllers
// down.
func (g *ControlGroup) MoveGuard() error {
	leaf, err := g.Top.MkdirOpen(protocol.GuardsName, GroupMode)
	if err != nil {
		return err
	}
	g.Guards = leaf
	return leaf.Take(g.guard.PID)
}

func (g *ControlGroup) Beside() (parent *cgroup.Group, own string) { return g.Parent, g.Dir }

// holds reports whether a cgroup path is in the payload: the id is unique.
func (g *ControlGroup) holds(where string) bool {
	return strings.Contains(where+"/", "/"+path.Join(g.Dir, protocol.PayloadName)+"/")
}

func (g *ControlGroup) Note(notes []string) {
	if text := NoteText(notes); text != "" {
		_ = g.Payload.SetAttr(AttrNotes, text) // for people only
	}
}

const notesMost = 1000

func NoteText(notes []string) string {
	text := strings.Join(notes, "\n")
	return strings.ToValidUTF8(text[:min(len(text), notesMost)], "")
}

func (g *ControlGroup) Ending(why protocol.Cause) {
	_ = g.Payload.SetAttr(AttrEnding, string(why)) // for people only
}

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
