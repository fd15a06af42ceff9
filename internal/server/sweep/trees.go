// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// sweepTrees stops the servers below guards that are stopped and have no launcher. Such a guard exits as soon
// as it is continued.
func sweepTrees(uid int) (swept []Swept) {
	var halted []*backend.TreeGuard
	backend.EachTree(uid, func(t *backend.TreeGuard) (keep bool) {
		if !t.Stopped() || t.LauncherLives() {
			return false
		}
		halted = append(halted, t)
		return true
	})
	until := time.Now().Add(protocol.DoubtMost) // for all of them together
	for _, t := range halted {
		below := freeze.Stop{Target: t.Tree(), Ask: unix.SIGTERM, Grace: SweepGrace}
		_, _ = below.Run()                                      // the next sweep tries again
		_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGCONT, nil, 0) // gone is as good
		if linux.AwaitEnd(t.PIDFD, unix.POLLIN, time.Until(until)) {
			swept = append(swept, Swept{Name: t.Config.Name, ID: t.Config.Group.ID, Dir: strconv.Itoa(t.PID)})
		}
		t.Close()
	}
	return swept
}
