// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Tag is a value of the soft limit of RLIMIT_LOCKS. fork and execve keep it, all users can read it, and it
// has had no effect since Linux 2.4.25. So it finds processes that left the group and descend from none of
// ours. A process can remove it, and a daemon's children do not have it. 0 is no tag.
type Tag uint64

// TagBits are those that distinguish tags: eight letters and digits. A tag is larger than any real limit, and
// fits a signed number.
const (
	TagBits  = 42
	tagMagic = Tag(0x6d63) << TagBits // "mc"
)

// NewTag returns the tag with these bits, of which the last TagBits count.
func NewTag(bits uint64) Tag { return tagMagic | Tag(bits&(1<<TagBits-1)) }

// IsTag reports whether a limit is a tag.
func (t Tag) IsTag() bool { return t>>TagBits == tagMagic>>TagBits }

// TagOn returns the tag that a process carries, or 0. prlimit(2) takes 0.7 µs; without the rights for it
// /proc/PID/limits is read, which takes 10.
func TagOn(pid int) Tag {
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit)
	if err == unix.EPERM {
		limit.Cur, _ = proc.FileLocks(pid) // 0, if it can't be read
	}
	if tag := Tag(limit.Cur); tag.IsTag() {
		return tag
	}
	return 0
}

// Put sets the tag of a process that is held by a pidfd, but not of its existing children. Without
// CAP_SYS_RESOURCE the process must belong to the same user. If the pid was reused meanwhile, Put restores
// the limit.
func (t Tag) Put(pid, pidfd int) error {
	var old unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &old)
	if linux.Ended(pidfd) {
		return unix.ESRCH
	}
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(t), Max: old.Max}, nil)
	}
	if err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	if linux.Ended(pidfd) {
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &old, nil) // of no process, as a rule
		return unix.ESRCH
	}
	return nil
}

// Remove removes the tag from a process that carries it, but not from its children; pid 0 is the calling one.
func (t Tag) Remove(pid int) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) == nil && Tag(limit.Cur) == t && t.IsTag() {
		limit.Cur = limit.Max                                 // which the soft limit may always be
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &limit, nil) // it may have ended
	}
}

// Limit is the RLIMIT_LOCKS of a process with the tag, in the place of another tag. If a limit is set, and so
// in use, it stays.
func (t Tag) Limit() unix.Rlimit {
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &limit) // it can't fail
	if Tag(limit.Cur).IsTag() {
		limit.Cur = limit.Max
	}
	if t.IsTag() && limit.Cur == unix.RLIM_INFINITY {
		limit.Cur = uint64(t)
	}
	return limit
}

// ClearTag removes any tag from the calling process, which is no member of a server any more.
func ClearTag() {
	var own unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_LOCKS, &own) // it can't fail
	Tag(own.Cur).Remove(0)
}

// carriers lists the processes that carry the tag and that a process of the owner may signal. The tag alone
// proves nothing: a user can set it on own processes, and a setuid program inherits it.
func (t Tag) carriers(owner int) ([]proc.Stat, error) {
	if !t.IsTag() {
		return nil, nil
	}
	var found []proc.Stat
	var unread error
	err := proc.Each(func(pid int) bool {
		// EPERM of most processes: kernel threads, other users'
		if unix.Kill(pid, 0) == unix.EPERM || !t.On(pid) {
			return true
		}
		st, err := proc.ReadStat(pid)
		mine := false
		if err == nil && !st.IsZombie() {
			mine, err = owns(owner, pid)
		}
		switch {
		case mine:
			found = append(found, st)
		case proc.IsExhausted(err): // after any other error it has ended, or is hidden from us
			unread = err
		}
		return true
	})
	return found, errors.Join(err, unread)
}

// On reports whether a process carries the tag.
func (t Tag) On(pid int) bool { return t.IsTag() && TagOn(pid) == t }

// owns reports whether a process of uid may signal pid: kill(2) compares real and saved user ids. Root may
// signal any: a process that we may not signal was left out before.
func owns(uid, pid int) (bool, error) {
	if uid == 0 {
		return true, nil
	}
	const realID, savedID = 0, 2
	st, err := proc.ReadStatus(pid)
	return err == nil && (st.UID[realID] == uid || st.UID[savedID] == uid), err
}
