// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
)

// endCarriers ends what a server has left that had ended before it could be put into a group, as far as it is
// in no group and this user's.
func (w *watcher) endCarriers(c *candidate) {
	tags := w.candidates.within(c)
	id, err := launcher.NewLineage()
	if err != nil {
		return // nobody is there to tell
	}
	for pass, fresh := 0, true; fresh && pass < takePasses; pass++ {
		fresh = false
		pids, _ := everybody() // nobody, without /proc
		for _, pid := range pids {
			fresh = addTo(id, pid, tags) || fresh
		}
	}
	_ = id.End(w.Policy.TermGrace) // nobody is there to tell
}

func addTo(id launcher.Lineage, pid int, tags map[tag]bool) bool {
	is := func() bool {
		had := locksOf(pid)
		return tags[had.tag()] && !had.inGroup() && isOurs(pid)
	}
	if !is() {
		return false
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pidfd)
	return is() && !linux.Ended(pidfd) && id.Add(pid, pidfd) == nil
}
