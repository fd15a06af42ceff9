// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// showTrees lets other processes of this user read the pages of servers: those that are trees have no cgroup
// whose attributes would describe them.
func showTrees() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // the kernel accepts its own value
	// /proc/self/comm belongs to root until the process is dumpable. Without the name its servers are not
	// listed.
	_ = os.WriteFile("/proc/self/comm", []byte(names.WatcherOfTrees), 0)
}
