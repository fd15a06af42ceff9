// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// replaceOlder stops older servers of the same name and client process: a client that reconnects without
// closing would collect them. Each is visible before it looks. So of two that start at the same time at
// least one sees the other, and the older stops.
func (b *Brain) replaceOlder() {
	own := &fleet.Listed{
		ID: b.Config.Group.ID, Name: b.Config.Name, UID: os.Getuid(), Client: b.Config.Client,
		Started: time.Unix(0, b.Config.Started),
	}
	all, _ := fleet.List(os.Getuid()) // an invisible server stays
	for _, l := range all {
		defer l.Close()
		running := l.State != fleet.Terminating && l.State != fleet.Orphaned
		if l.Key() != own.Key() || l.ID == own.ID || !running {
			continue
		}
		switch own.Started.Compare(l.Started) {
		case 1:
			l.LogStop("a newer one, " + own.ID + " (--replace)")
			_ = l.RequestStop() // without a wait for its end
		case -1:
			_ = unix.PidfdSendSignal(b.Guard.PIDFD, protocol.StopSignal, nil, 0) // gone is as good
		}
	}
}
