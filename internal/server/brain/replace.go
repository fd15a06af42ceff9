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
	own := b.Config
	all, _ := fleet.List(os.Getuid()) // an invisible server stays
	for _, l := range all {
		defer l.Close()
		running := l.State != fleet.Terminating && l.State != fleet.Orphaned
		rival := l.Name == own.Name && l.Client.PID == own.Client.PID && l.Client.Start == own.Client.Start
		if !running || !rival || l.ID == own.Group.ID {
			continue
		}
		switch time.Unix(0, own.Started).Compare(l.Started) {
		case 1:
			l.LogStop("a newer one, " + own.Group.ID + " (--replace)")
			_ = l.RequestStop() // without a wait for its end
		case -1:
			_ = unix.PidfdSendSignal(b.Guard.PIDFD, protocol.StopSignal, nil, 0) // gone is as good
		}
	}
}
