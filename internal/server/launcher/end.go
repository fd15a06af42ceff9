// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// abandon undoes a start that failed.
func (l *launcher) abandon() {
	l.control.Close() // the supervisor, if there is one, ends at this
	l.client.Close()  // that it failed may be for lack of descriptors
	if l.group == nil {
		return
	}
	_, _, _ = l.endAll() // why it failed is said
}

// endAll ends everybody whose supervisor is dead or was never there, who has left the group too, and their containers, and removes
// the group.
func (l *launcher) endAll() (res freeze.Result, err, uncontained error) {
	if lifecycle.EndsFirst(l.config.Engine()) {
		_ = l.endContainers() // it is asked once more
	}
	res, err = l.group.EndAll()
	uncontained = l.endContainers()
	l.removeGroup()
	return res, err, uncontained
}

// awaitRemoval waits until the supervisor has gone, and with it who removes the group:
// both hold the other end of the control socket.
func (l *launcher) awaitRemoval() {
	gone := linux.AwaitEnd(l.control.In, 0, protocol.SupervisorGoneWithin) // POLLHUP needs no asking
	if l.subreaper {
		lifecycle.ReapAll() // nobody else does
	}
	if !gone {
		l.group.KillSupervisor() // its payload is gone
	}
	_ = l.group.Remove() // it is gone, as a rule; a sweeper removes what can't be removed now
}

// removeGroup removes a group whose supervisor is dead or was never there.
func (l *launcher) removeGroup() {
	l.group.KillSupervisor()
	_ = l.group.Remove() // a sweeper removes what can't be removed now
}
