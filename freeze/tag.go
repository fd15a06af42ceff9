// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Tag is carried by all that a process starts once it has it: a value of the soft limit of
// RLIMIT_LOCKS, which is inherited by fork, kept by execve, readable by all, and without a
// meaning since Linux 2.4.25. It finds a process that is below none of ours and in no group of
// ours. A process that a daemon has started does not carry it; a process can drop it by setting the
// limit. 0 is no tag.
type Tag uint64

// A tag has more bits than any real limit, and fits what is signed.
const (
	tagBits  = 40
	tagMagic = Tag(0x6d6370) << tagBits // "mcp"
)

// NewTag makes one of 40 bits.
func NewTag(bits uint64) Tag { return tagMagic | Tag(bits&(1<<tagBits-1)) }

func (t Tag) isTag() bool { return t>>tagBits == tagMagic>>tagBits }

// Put puts the tag on a process that is held by a pidfd, but not those it has started before. Without
// CAP_SYS_RESOURCE it has to be of the same user, and its hard limit large enough. A pid that
// was reused meanwhile is nobody's: its holder gets back what it had.
func (t Tag) Put(pid, pidfd int) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &old); err != nil {
		return fmt.Errorf("read RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	if !(Root{PIDFD: pidfd}).Alive() {
		return unix.ESRCH
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(t), Max: old.Max}, nil); err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	if !(Root{PIDFD: pidfd}).Alive() {
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &old, nil) // of nobody, as a rule
		return unix.ESRCH
	}
	return nil
}

// Remove takes the tag from a process that carries it. What that has started keeps it.
func (t Tag) Remove(pid int) {
	removeTag(pid, func(its Tag) bool { return its == t && t.isTag() })
}

// removeTag removes such a tag from a process, or from the calling one by the pid 0.
func removeTag(pid int, such func(Tag) bool) {
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit) == nil && such(Tag(limit.Cur)) {
		limit.Cur = limit.Max                                 // which the soft limit may always be
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &limit, nil) // it may have ended
	}
}

// Limit is the RLIMIT_LOCKS with which a process that the calling one starts carries the tag. It is nil
// where the limit is in use: somebody has set one.
func (t Tag) Limit() *unix.Rlimit {
	var own unix.Rlimit
	if !t.isTag() || unix.Getrlimit(unix.RLIMIT_LOCKS, &own) != nil || own.Cur != unix.RLIM_INFINITY {
		return nil
	}
	return &unix.Rlimit{Cur: uint64(t), Max: own.Max}
}

// ClearTag is for a process that starts what is not to be found by the tag that it was
// started with: a group of its own.
func ClearTag() { removeTag(0, Tag.isTag) }

// carriers lists the processes that carry the tag and that a process of the owner could signal,
// wherever they are. The tag itself proves nothing: anyone may put any tag on a process of
// theirs, and a setuid program keeps the one of whoever has started it. So nobody is signalled for
// a tag whom its owner could not have signalled without us.
func (t Tag) carriers(owner int) ([]proc.Stat, error) {
	if !t.isTag() {
		return nil, nil
	}
	var found []proc.Stat
	err := proc.Each(func(pid int) bool {
		if unix.Kill(pid, 0) == unix.EPERM { // not the owner's: kernel threads and other users' are most processes
			return true
		}
		if t.On(pid) && owns(owner, pid) {
			if st, err := proc.ReadStat(pid); err == nil && !zombie(st) { // ended, or hidden from us
				found = append(found, st)
			}
		}
		return true
	})
	return found, err
}

// On tells whether a process carries the tag. It asks by prlimit(2), which takes 0.7 µs, and only where
// that needs rights that we lack reads /proc/PID/limits, which takes 10.
func (t Tag) On(pid int) bool {
	if !t.isTag() {
		return false
	}
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit)
	if err == unix.EPERM {
		soft, ok := proc.SoftLimit(pid, proc.LimitLocks)
		return ok && Tag(soft) == t
	}
	return err == nil && Tag(limit.Cur) == t
}

// owns tells whether a process of uid may signal pid: kill(2) compares with its real and its
// saved user id.
func owns(uid, pid int) bool {
	const realID, savedID = 0, 2
	st, err := proc.ReadStatus(pid)
	return err == nil && (st.UID[realID] == uid || st.UID[savedID] == uid)
}
