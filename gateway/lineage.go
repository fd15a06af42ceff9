//go:build linux

package gateway

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/poll"
	"github.com/mcpscope/mcpscope/scope"
)

// What a contained gateway has started carries its hard limit: the soft one of the same resource is
// the tag of a candidate.

// lineageMagic is more than any tag or mark, which the soft limit has to be able to hold.
const lineageMagic = uint64(0x6d6378) << tagBits

// newLineage returns what a gateway and all that it starts are to have.
func newLineage() (hard uint64, err error) {
	t, err := newTag()
	return lineageMagic | uint64(t)&(1<<tagBits-1), err
}

// beginLineage makes the calling process the first.
func beginLineage(hard uint64) error {
	if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: hard, Max: hard}); err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS: %w", err)
	}
	return nil
}

// endLineage ends what the gateway has left that is no server's.
func (w *watcher) endLineage() {
	if w.Lineage == 0 {
		return
	}
	id, err := scope.NewLineage()
	if err != nil {
		return // nobody is there to tell
	}
	for pass, fresh := 0, true; fresh && pass < takePasses; pass++ {
		fresh = false
		pids, _ := everybody() // nobody, without /proc
		for _, pid := range pids {
			if had := locksOf(pid); had.known && had.hard == w.Lineage && !had.marked() {
				fresh = w.addTo(id, pid) || fresh
			}
		}
	}
	_ = id.End(w.Policy.TermGrace) // nobody is there to tell
}

func (w *watcher) addTo(id scope.Lineage, pid int) bool {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(pidfd)
	if had := locksOf(pid); had.hard != w.Lineage || had.marked() || poll.Ended(pidfd) {
		return false
	}
	return id.Add(pid, pidfd) == nil
}
