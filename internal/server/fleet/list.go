// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package fleet lists the running servers of a user, from the kernel alone, and inspects, limits, freezes
// and stops them.
package fleet

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// List finds the servers of a user, or of Everyone, the oldest first. It leaves out a server that ends
// meanwhile. The caller closes each.
func List(uid int) ([]*Listed, error) {
	if uid != os.Getuid() && os.Getuid() != 0 {
		return nil, group.ErrOthers()
	}
	all := listTrees(uid)
	err := group.InParents(uid, func(here group.Position, parent *cgroup.Group, dirs []string) error {
		found, err := listIn(here, parent, dirs)
		all = append(all, found...)
		return err
	})
	slices.SortFunc(all, func(a, b *Listed) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.ID, b.ID))
	})
	return all, err
}

func listIn(at group.Position, parent *cgroup.Group, dirs []string) ([]*Listed, error) {
	in := listing{parent: parent, above: strings.TrimPrefix(parent.Path(), at.Root.Path())}
	if leaf, err := parent.Child(protocol.GuardsName); err == nil {
		in.guards, _ = group.GuardsOf(leaf)
		_ = leaf.Close() // a directory
	}
	var all []*Listed
	var errs []error // a server can make its own group unreadable
	for _, dir := range dirs {
		s, err := in.one(dir)
		errs = append(errs, group.IgnoreGone(err))
		if s != nil {
			all = append(all, s)
		}
	}
	return all, errors.Join(errs...)
}

// listing is common to all groups of a directory.
type listing struct {
	parent *cgroup.Group
	above  string         // its path below the mount
	guards map[string]int // pids by ids
}

// one returns nil for a directory that is no server's. It keeps few descriptors: there may be more servers
// than descriptors.
func (in *listing) one(dir string) (*Listed, error) {
	g, err := group.Open(in.parent, dir)
	armed := false
	if err == nil {
		_, armed, err = g.Payload.Attr(group.AttrArmed)
	}
	g.Backend = backendOf(in.above, g.Managed)
	s := &Listed{ID: g.ID, Backend: g.Backend, group: g, members: g.Payload, Group: in.above + "/" + dir}
	if err == nil && g.LeftToManager() {
		s.Unit = dir
	}
	if err == nil && armed {
		if s.Guard = in.guards[g.ID]; s.Guard == 0 {
			s.Guard, _ = g.GuardPID() // in a scope, or just begun
		}
		err = s.read()
	}
	// systemd is about to remove an empty scope
	if err != nil || !armed || g.Managed && s.State == Orphaned && !group.Populated(g.Top) {
		s.Close()
		return nil, err
	}
	return s, nil
}

// backendOf derives the backend from the directory of a group.
func backendOf(above string, managed bool) protocol.Backend {
	switch {
	case managed && strings.Contains(above, "/user@"):
		return protocol.SystemdUser
	case managed:
		return protocol.SystemdSystem
	case strings.HasPrefix(above+"/", "/"+protocol.DefaultSlice+"/"):
		return protocol.Cgroup
	}
	return protocol.Delegated
}

// listTrees lists servers without a group.
func listTrees(uid int) (all []*Listed) {
	backend.EachTree(uid, func(t *backend.TreeGuard) (keep bool) {
		c := t.Config
		s := &Listed{
			ID: c.Group.ID, UID: t.UID, Backend: protocol.Tree, State: Running, Cause: t.Cause, Guard: t.PID,
			members: t.Tree(), tree: t,
		}
		s.describe(c.Facts)
		st, err := s.members.State()
		switch {
		case s.Cause != "":
			s.State = Terminating
		case err == nil && st.Frozen:
			s.State = Frozen
		}
		all = append(all, s)
		return true
	})
	return all
}
