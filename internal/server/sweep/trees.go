// SPDX-License-Identifier: Apache-2.0

//go:build linux

package sweep

import (
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/backend"
)

// sweepTrees kills supervisors that were stopped and have no launcher to continue them: their guards end the trees.
func sweepTrees(uid int) (swept []Swept, err error) {
	err = backend.EachTree(uid, func(t *backend.TreeSupervisor) (keep bool) {
		if !t.Stopped() || t.LauncherLives() {
			return false
		}
		if guard := t.OpenGuard(); guard >= 0 {
			_ = unix.PidfdSendSignal(guard, unix.SIGCONT, nil, 0) // gone is as good
			_ = unix.Close(guard)
		}
		_ = unix.PidfdSendSignal(t.PIDFD, unix.SIGKILL, nil, 0) // as above
		swept = append(swept, Swept{Name: t.Facts.Name, ID: t.Facts.ID, Dir: strconv.Itoa(t.PID)})
		return false
	})
	return swept, err
}
