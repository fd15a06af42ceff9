// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/scope"
)

// What a contained gateway has started carries its hard limit: the soft one of the same resource is
// the tag of a candidate.

// lineageMagic is more than any tag, which the soft limit has to be able to hold.
const lineageMagic = uint64(0x6d6378) << tagBits

// newLineage returns what a gateway and all that it starts are to have.
func newLineage() (hard uint64) { return lineageMagic | rand.Uint64N(1<<tagBits) }

// beginLineage makes the calling process the first. The watcher does not belong to it any more.
func beginLineage(hard uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: hard, Max: hard}); err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS: %w", err)
	}
	return nil
}

// endLineage ends what the gateway has left that is no server's.
func (w *watcher) endLineage() {
	if w.Lineage != 0 {
		w.endAll(func(had locks) bool { return had.known && had.hard == w.Lineage })
	}
}

// endCarriers ends what a server has left that had ended before it could be put into a group.
func (w *watcher) endCarriers(c *candidate) {
	tags := w.candidates.within(c)
	w.endAll(func(had locks) bool { return tags[had.tag()] })
}

// endAll ends all of them that are in no group, as far as they are this user's.
func (w *watcher) endAll(are func(locks) bool) {
	id, err := scope.NewLineage()
	if err != nil {
		return // nobody is there to tell
	}
	for pass, fresh := 0, true; fresh && pass < takePasses; pass++ {
		fresh = false
		pids, _ := everybody() // nobody, without /proc
		for _, pid := range pids {
			fresh = addTo(id, pid, are) || fresh
		}
	}
	_ = id.End(w.Policy.TermGrace) // nobody is there to tell
}

func addTo(id scope.Lineage, pid int, are func(locks) bool) bool {
	is := func() bool {
		had := locksOf(pid)
		return are(had) && !had.inGroup() && isOurs(pid)
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
