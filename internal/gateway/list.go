// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/gateway/early"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
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
		argv := arguments(pid)
		if len(argv) != 6 || argv[0] != "mcpscope" || argv[1] != early.WatchCommand {
			return true
		}
		status, err := proc.ReadStatus(pid) // its directory is root's: it keeps tracers off
		gateway, _ := strconv.Atoi(argv[2])
		one := Running{nameOf(gateway, argv[3]), gateway} // it may have two watchers for a moment
		if err == nil && status.UID[0] == uid && gateway > 0 && !slices.Contains(all, one) {
			all = append(all, one)
		}
		return true
	})
	return all
}

// nameOf is a gateway's name; an early start gives none of some commands. It is "" in the middle of the exec.
func nameOf(pid int, given string) string {
	if given == "" {
		if argv := arguments(pid); len(argv) > 0 {
			return name.Derive(argv)
		}
	}
	return given
}
