//go:build linux

package scope

import (
	"fmt"
	"path"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/tree"
)

// In tells whether a process is in a server's group, and not just where its client is.
func In(pid, client int) bool {
	where, _, err := proc.ReadCgroup(pid)
	if err != nil {
		return false
	}
	if theirs, _, err := proc.ReadCgroup(client); err == nil && theirs == where {
		return false
	}
	for ; where != "/" && where != "."; where = path.Dir(where) {
		if isGroup(path.Base(where)) {
			return true
		}
	}
	return false
}

// Shelter moves the calling process to where nothing reaches it that ends the client's unit, or a
// server that the client is a member of.
func (s *Server) Shelter() (Backend, error) {
	tree.ClearMark()
	here, places, errs := s.placesFor()
	l := &launcher{here: here, places: places}
	defer l.closePlaces()
	for _, p := range places {
		err := p.shelter()
		if err == nil {
			return p.backend(), nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", p.backend(), err))
	}
	return "", noPlace(errs)
}

// shelter is a leaf that supervisors go to when they remove their group, too. A server that may write to
// it can have frozen it.
func (d directory) shelter() error {
	leaf, err := d.parent.MkdirOpen(leavingName, groupMode)
	if err != nil {
		return err
	}
	defer leaf.Close()
	thawOurs(leaf)
	return leaf.Enter()
}

// thawOurs is for a directory of ours that a process is about to be born in, or to enter: a server
// that may write to it can have frozen it.
func thawOurs(g *cgroup.Group) {
	if frozen(g) {
		_ = g.SetFrozen(false) // what is frozen above it stays so
	}
}

func (treePlace) shelter() error {
	return &cgroup.UnsupportedError{Feature: "a process that runs already, in a tree", MinVersion: "a cgroup"}
}
