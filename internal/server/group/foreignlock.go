// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
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
	err = dir.TryLock(unix.LOCK_EX)
	if errors.Is(err, unix.EWOULDBLOCK) && IsLockForeign(dir.FD(), user) {
		return false, nil
	}
	return err == nil, err
}

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

// IsLockForeign reports whether a lock of a file was taken by processes of other users alone. Root counts as
// the user. A lock that was taken in an invisible pid namespace may be the user's.
func IsLockForeign(fd, user int) bool {
	var file unix.Stat_t
	if unix.Fstat(fd, &file) != nil {
		return false
	}
	locks, err := proc.ReadLocks()
	if err != nil {
		return false
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
	return len(takers) > 0 && !slices.ContainsFunc(takers, isOfUser)
}
