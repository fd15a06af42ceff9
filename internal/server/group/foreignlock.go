// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// LockUnlessForeign locks a directory. EWOULDBLOCK means that a process of the user, or of root, may have the
// lock. Any user can lock the directories that a manager makes (mode 0755), for as long as it likes: such a
// lock is no error, and the directory is not locked then.
func LockUnlessForeign(dir *cgroup.Group, user int) (isLocked bool, err error) {
	isLocked, err = LockFileUnlessForeign(dir.FD(), user)
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", dir.Path(), err)
	}
	return isLocked, nil
}

// LockFileUnlessForeign is LockUnlessForeign for a file of a directory.
func LockFileUnlessForeign(fd, user int) (isLocked bool, err error) {
	for range lockReads {
		err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
		isFound, isForeign := findTakers(fd, user)
		if isForeign {
			return false, nil
		}
		if isFound {
			return false, err
		}
	}
	return false, err
}

// lockReads is how often the locks of the host are read if a taker is not among them. The kernel returns
// them a page at a time, and leaves one out at the beginning of a page if another one is released meanwhile.
const lockReads = 4

// LockWithin is LockUnlessForeign that waits for processes of the user. Any user can make the locks of the
// host take half a second to read. So it reads them before the wait, and afterwards: another user may have
// taken the lock meanwhile.
func LockWithin(dir *cgroup.Group, user int, until time.Time) (isLocked bool, err error) {
	isLocked, err = LockUnlessForeign(dir, user)
	if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(until) {
		return isLocked, err
	}
	for pause := time.Millisecond; time.Now().Before(until); pause = min(2*pause, pauseMost) {
		time.Sleep(pause)
		err = dir.TryLock(unix.LOCK_EX)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err == nil, err
		}
	}
	return LockUnlessForeign(dir, user)
}

const pauseMost = 10 * time.Millisecond // a sweep takes longer

// findTakers looks for the processes that have taken a lock of a file. isForeign reports that all are other
// users' ones. Root counts as the user. A lock that was taken in an invisible pid namespace may be the
// user's.
func findTakers(fd, user int) (isFound, isForeign bool) {
	var file unix.Stat_t
	if unix.Fstat(fd, &file) != nil {
		return false, false
	}
	locks, err := proc.ReadLocks()
	if err != nil {
		return false, false
	}
	takers := locks.On(&file)
	isOfUser := func(pid int) bool {
		status, err := proc.ReadStatus(pid)
		if err != nil { // it has ended and left the lock to another process, or is hidden as another user's
			return false
		}
		uid := status.UID[0] // real: any user can start a set-user-ID program, which inherits the lock
		return uid == user || uid == 0
	}
	isFound = len(takers) > 0
	return isFound, isFound && !slices.ContainsFunc(takers, isOfUser)
}
