// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// replaceOlder retires the older servers of the same name that the same client process has started: a client that
// reconnects without closing would collect them. Of two that start at the same time, one may not see the other yet;
// but then that one, which can be seen before it looks, sees this one, and retires if it is the older.
func (b *brain) replaceOlder() {
	own := &fleet.Listed{
		ID: b.config.Group.ID, Name: b.config.Name, UID: os.Getuid(), Client: b.config.Client, Started: time.Unix(0, b.config.Started),
	}
	// Whoever can't be seen stays. The others are not looked at closely: that takes long where one forks all the time.
	all, _ := fleet.Find(os.Getuid(), func(l *fleet.Listed) bool { return l.Key() == own.Key() && l.ID != own.ID })
	for _, l := range all {
		defer l.Close()
		if l.State != fleet.Running && l.State != fleet.Frozen && l.State != fleet.Idle {
			continue
		}
		switch own.Started.Compare(l.Started) {
		case 1:
			l.LogStop("a newer one, " + own.ID + " (--replace)")
			_ = l.RequestStop() // nobody waits for it
		case -1:
			b.loop.Signal(unix.SIGTERM) // as if somebody had asked us
		}
	}
}
