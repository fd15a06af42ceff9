// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"cmp"
	"os"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// LoadServer makes a server from its page. payload is the group as this process has it.
func LoadServer(p *page.Page, g *page.Guard, payload int, env []string) (*Server, error) {
	c, err := protocol.ConfigOn(p)
	if err != nil {
		return nil, err
	}
	s := &Server{Config: c, Page: p, Guard: g, Env: env}
	if !p.Plan.IsByMain {
		s.completeConfig()
	}
	if c.Group.Backend == names.Tree && c.StartedByClient {
		s.Group = group.NewTaggedTree(c.Group.ID)
		return s, nil
	}
	if c.Group.Backend == names.Tree {
		s.Group = group.NewTree(c.Group.ID, s.descendants(group.TagOf(c.Group.ID)))
		return s, nil
	}
	s.Group, err = group.Reopen(payload, c.Group)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// completeConfig adds facts to those that a raw launcher writes. This process has its working directory and
// the environment of the server.
func (s *Server) completeConfig() {
	c := s.Config
	dir, _ := os.Getwd() // "", if it was removed
	c.Facts.Origin = protocol.OriginOf(dir, s.Env)
	if st, err := proc.ReadStat(c.Facts.Client.PID); err == nil && st.StartTime == c.Facts.Client.Start {
		c.Facts.Client.Name = cmp.Or(protocol.ClientName(c.Facts.Client.PID), c.Facts.Client.Name)
	}
	c.Facts.Client.Unit, _, _ = systemd.UnitOf(c.Position, os.Getuid()) // none, outside of any
}
