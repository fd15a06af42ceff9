// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// sweepTrees continues supervisors that were stopped and have no launcher to do it: they end their trees
// then. One that is stopped again and again is killed, and its guard ends the tree.
func sweepTrees(uid int) ([]Swept, error) {
	var halted []*backend.TreeSupervisor
	err := backend.EachTree(uid, func(t *backend.TreeSupervisor) (keep bool) {
		if !t.Stopped() || t.LauncherLives() {
			return false
		}
		_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGCONT, nil, 0) // gone is as good
		if guard := t.OpenGuard(); guard >= 0 {
			_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0)
			_ = unix.Close(guard)
		}
		halted = append(halted, t)
		return true
	})
	var swept []Swept
	until := time.Now().Add(protocol.WakeWithin) // for all of them together
	for _, t := range halted {
		ended := linux.AwaitEnd(t.PIDFD, unix.POLLIN, time.Until(until))
		if !ended && t.Stopped() {
			_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGKILL, nil, 0) // gone is as good
			ended = true
		}
		if ended {
			swept = append(swept, Swept{Name: t.Facts.Name, ID: t.Facts.ID, Dir: strconv.Itoa(t.PID)})
		}
		t.Close()
	}
	return swept, err
}
