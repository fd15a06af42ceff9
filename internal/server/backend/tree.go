// SPDX-License-Identifier: Apache-2.0

//go:build linux

package backend

import (
	"fmt"
	"os"
	"path"
	"strconv"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// treePlace gives groups that need nothing of the host but pidfds and /proc: where no cgroup can be had, the
// members of a group are the descendants of its guard, a subreaper, and the processes that carry its tag.
type treePlace struct{}

// treePlace makes sure that members can be found.
func (at Location) treePlace() (Place, error) {
	if len(at.Limits) > 0 && at.Must {
		return nil, group.ErrNoGroup
	}
	if _, err := proc.Orphans(os.Getpid()); err != nil { // of one thread, which is as good
		return nil, fmt.Errorf("list our children: %w", err)
	}
	return treePlace{}, nil
}

func (treePlace) Backend() protocol.Backend { return protocol.Tree }

func (treePlace) Above() *cgroup.Group { return nil }

func (treePlace) Group(w Wanted) (group.Group, error) {
	return NewTree(w.Config.Group.ID, w.Guard), nil
}

// tree is the group of a server that has no cgroup.
type tree struct {
	id string
	freeze.Tree
}

// NewTree is the tree below a guard.
func NewTree(id string, guard group.Guarded) group.Group {
	g := &tree{id: id, Tree: *group.Below(guard)}
	g.Tree.Tag, g.Tree.Owner = group.TagOf(id), os.Getuid()
	return g
}

func (g *tree) Placed() protocol.Placed { return protocol.Placed{ID: g.id, Backend: protocol.Tree} }

func (g *tree) Members() group.Payload { return &g.Tree }

func (g *tree) Tagged() *freeze.Tree { return group.TaggedTree(g.id) }

func (g *tree) Events() int { return -1 }

func (g *tree) Directories() (payload, leaf int) { return -1, -1 }

func (g *tree) Figures() *protocol.Figures { return nil }

func (g *tree) Limit(cgroup.Limit, protocol.Backend) (string, error) { return "", group.ErrNoGroup }

func (g *tree) Limited([]string) {}

func (g *tree) Note([]string) {}

func (g *tree) Ending(protocol.Cause) {}

func (g *tree) Adopt() {}

func (g *tree) Remove() error { return nil }

// Beside is where the groups of the backend cgroup are: whatever keeps a server from having one can have been
// left by another server.
func (g *tree) Beside() (parent *cgroup.Group, own string) {
	here, err := hierarchy.OwnPosition()
	if err != nil {
		return nil, ""
	}
	defer here.Root.Close()
	parent, err = here.Root.Child(path.Join(protocol.SliceName, strconv.Itoa(os.Getuid())))
	if err != nil {
		return nil, "" // no such server has run
	}
	return parent, ""
}
