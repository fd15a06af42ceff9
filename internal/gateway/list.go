// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Running is a gateway that has a watcher.
type Running struct {
	Name string
	PID  int
}

// List finds the gateways of a user by their watchers' command lines, which that user's processes may have
// forged.
func List(uid int) (all []Running) {
	_ = proc.Each(func(pid int) bool { // none, without /proc
		var st unix.Stat_t
		argv := arguments(pid)
		if len(argv) == 5 && argv[0] == "mcpscope" && argv[1] == WatchCommand &&
			unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) == nil && int(st.Uid) == uid {
			gateway, _ := strconv.Atoi(argv[3])
			one := Running{argv[4], gateway}
			if gateway > 0 && !slices.Contains(all, one) { // the standby has the same
				all = append(all, one)
			}
		}
		return true
	})
	return all
}
