// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// sweepTrees continues guards that were stopped and have no launcher. They then stop their servers.
func sweepTrees(uid int) (swept []Swept, err error) {
	var halted []*backend.TreeGuard
	err = backend.EachTree(uid, func(t *backend.TreeGuard) (keep bool) {
		if !t.Stopped() || t.LauncherLives() {
			return false
		}
		_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGCONT, nil, 0) // gone is as good
		halted = append(halted, t)
		return true
	})
	until := time.Now().Add(protocol.DoubtMost) // for all of them together
	for _, t := range halted {
		if linux.AwaitEnd(t.PIDFD, unix.POLLIN, time.Until(until)) {
			swept = append(swept, Swept{Name: t.Config.Name, ID: t.Config.Group.ID, Dir: strconv.Itoa(t.PID)})
		}
		t.Close()
	}
	return swept, err
}
