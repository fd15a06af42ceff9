// SPDX-License-Identifier: Apache-2.0

//go:build linux

package detach

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/systemd"
	"github.com/mcpscope/mcpscope/scope/internal/protocol"
)

// stopTimeout is what a daemon gets when its scope is stopped.
const stopTimeout = 10 * time.Second

// moveByManager moves them to a scope of their own, which lasts until the last of them has ended. All members are frozen
// meanwhile.
func (s Server) moveByManager(pids []int, deadline time.Time) error {
	kind, slice := systemd.Own(), "system.slice"
	if kind == systemd.User {
		slice = "app.slice"
	}
	if err := systemd.Present(kind, os.Getuid()); err != nil {
		return err
	}
	conn, err := systemd.Dial(kind, time.Until(deadline))
	if err != nil {
		return err
	}
	defer conn.Close()
	scope := systemd.Scope{
		Name: protocol.DetachedPrefix + name.Dir(s.Name) + "-" + s.ID + protocol.ScopeSuffix, Slice: slice,
		Description: "left running by MCP server " + s.Name, PIDs: pids,
		TimeoutStop: stopTimeout, KillSignal: int(unix.SIGTERM),
	}
	return conn.Start(scope, time.Until(deadline))
}
