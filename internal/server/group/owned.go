// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

func (g *ControlGroup) PayloadGroup() spawn.Group { return g.Payload }

func (g *ControlGroup) Guard() int { return -1 }

// Nested returns the directory of the group that pid supervises or, when it is about to
// be removed, leavingName; "" if it is no supervisor beside us.
func (g *ControlGroup) Nested(pid int) string {
	where, _, err := proc.ReadCgroup(pid)
	if err != nil {
		return ""
	}
	own, _, err := proc.ReadCgroup(0)
	group := path.Dir(where)
	if err == nil && where == path.Join(path.Dir(path.Dir(own)), protocol.LeavingName) {
		return protocol.LeavingName
	}
	if err != nil || path.Base(where) != protocol.SupervisorName || path.Dir(group) != path.Dir(path.Dir(own)) || group == path.Dir(own) {
		return ""
	}
	payload, err := g.Parent.Child(path.Join(path.Base(group), protocol.PayloadName))
	if err != nil {
		return ""
	}
	defer payload.Close()
	if _, armed, _ := payload.Attr(AttrArmed); !armed {
		return ""
	}
	return path.Base(group)
}

func (g *ControlGroup) Beside() (parent *cgroup.Group, own string) { return g.Parent, g.Dir }

func (g *ControlGroup) Elsewhere(pid int) bool {
	where, _, err := proc.ReadCgroup(pid)
	return err == nil && where != payloadPath()
}

func payloadPath() string {
	own, _, err := proc.ReadCgroup(0)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(own, protocol.SupervisorName) + protocol.PayloadName
}

func (g *ControlGroup) Note(notes []string) {
	if text := NoteText(notes); text != "" {
		_ = g.Payload.SetAttr(AttrNotes, text) // for people only
	}
}

// notesMost fits an attribute beside others, and an answer.
const notesMost = 1000

func NoteText(notes []string) string {
	text := strings.Join(notes, "\n")
	return strings.ToValidUTF8(text[:min(len(text), notesMost)], "")
}

func (g *ControlGroup) Ending(why protocol.Cause) {
	_ = g.Payload.SetAttr(AttrEnding, string(why)) // for people only
}

// Leave removes the group when we have left it. Until then payload is there, by which a
// supervisor around us knows what we are. What can't be removed now, a sweeper removes. A scope that no manager is known to have has some
// time: its launcher knows whose it is to remove, but may be killed before it has.
func (g *ControlGroup) Leave() {
	switch {
	case !g.Managed:
		g.removeAfterUs(0)
	case !g.LeftToManager() || g.OnlyAsked():
		g.RemoveLate()
	}
}

// RemoveLate is for a scope that a manager may have, or not: it is removed when we have ended, and the manager has had the time for it.
func (g *ControlGroup) RemoveLate() { g.removeAfterUs(protocol.ForgottenAfter) }

// removeAfterUs has a copy of the calling process remove the group when that has ended, and nobody else has in that time.
func (g *ControlGroup) removeAfterUs(others time.Duration) {
	_ = g.Payload.RemoveChildren()
	leaf, err := g.leaving()
	if err != nil {
		return
	}
	defer leaf.Close()
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return
	}
	r := spawn.Remover{Leaf: leaf, PidFD: self, Others: others, Dirs: []spawn.RemoverDir{
		{Parent: g.Top, Name: protocol.PayloadName}, {Parent: g.Top, Name: protocol.SupervisorName}, {Parent: g.Parent, Name: g.Dir},
	}}
	_ = r.Start() // if it can't, the launcher or a sweep removes the group
}

// leaving is a leaf beside the groups, for processes that outlive one.
func (g *ControlGroup) leaving() (*cgroup.Group, error) {
	leaf, err := g.Parent.MkdirOpen(protocol.LeavingName, GroupMode)
	if err == nil {
		ThawOurs(leaf)
	}
	return leaf, err
}
