// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Keep moves a member of a server with all that belongs to it to a group of its own, beside that of the
// server. So it lives as long as what is around the client, and below the same limits. Under a manager it is
// a scope that is bound to the client's unit; where the manager refuses that, a directory.
func Keep(g *group.ControlGroup, c *protocol.Config, of protocol.Kept, member int) (*group.KeptGroup, error) {
	parent, _ := g.Beside()
	if parent == nil { // the group was removed
		return nil, unix.ENOENT
	}
	defer parent.Close()
	made, err := makeKept(g, parent, c, of, member)
	if err != nil {
		return nil, err
	}
	made.Kept = of
	err = made.Record()
	if err == nil {
		err = g.Membership().MoveKept(member, made)
	}
	if err != nil {
		_ = made.RemoveKept() // it is empty; otherwise its processes are kept as far as they could be moved
		made.Close()
		return nil, err
	}
	return made, nil
}

func makeKept(
	g *group.ControlGroup, parent *cgroup.Group, c *protocol.Config, of protocol.Kept, member int,
) (*group.KeptGroup, error) {
	name := names.KeptName(of.Name, names.NewID())
	if g.Managed {
		if err := startKept(g, parent, c, name, member); err == nil {
			return group.OpenKept(parent, name+names.ScopeSuffix)
		}
	}
	dir, err := parent.Mkdir(name, group.GroupMode)
	if err != nil {
		return nil, err
	}
	return &group.KeptGroup{Dir: dir}, nil
}

// startKept starts a scope with a member of a server in it. A stop of the scope asks its processes.
func startKept(
	g *group.ControlGroup, parent *cgroup.Group, c *protocol.Config, name string, member int,
) error {
	kind := managers[g.Backend]
	conn, err := systemd.Dial(kind, policy.ManagerWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	slice := names.Slice
	if g.InSession {
		slice = path.Base(parent.Path())
	}
	group.TagOf(g.ID).Remove(member) // before: with it a kill of the server would find the process there
	_, err = enterScope(conn, systemd.Scope{
		Name: name + names.ScopeSuffix, Slice: slice,
		Description: "kept when the MCP server " + c.Facts.Name + " ends", PIDs: []int{member},
		TimeoutStop: agentTimeout, KillSignal: int(unix.SIGTERM), Client: clientUnit(c.Position, kind),
	}, member)
	return err
}
