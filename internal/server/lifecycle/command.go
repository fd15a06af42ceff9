// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"slices"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/spawn"
)

// MainCommand is the main process of the server with that id, born in payload. env is the client's.
func MainCommand(c *protocol.Config, id string, payload spawn.Group, env []string) spawn.Cmd {
	return spawn.Cmd{
		Path: c.Path, Argv: Labelled(c.Argv, id, c.Limits), Env: append(slices.Clip(env), "MCPSCOPE_ID="+id), Group: payload,
		Pgid: c.Pgid, NoFile: c.NoFile, Locks: group.TagOf(id).Limit(), Mask: &c.Mask, Shell: true,
	}
}
