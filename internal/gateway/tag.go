// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"fmt"
	"math/rand/v2"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// tag is a value of the soft limit of RLIMIT_LOCKS, which is inherited by fork, kept by execve and
// has had no meaning since Linux 2.4.25 (see freeze.Tag, which members of groups have). Every program
// that may be a server gets one of its own before it runs, so all that it starts is known when it
// turns out to be one, wherever that has gone. 0 is no tag.
type tag uint64

const (
	tagBits  = 40
	tagMagic = tag(0x6d6367) << tagBits // "mcg"
)

func newTag() tag { return tagMagic | tag(rand.Uint64N(1<<tagBits)) }

// locks is the limit that a process has.
type locks struct {
	soft, hard uint64
	known      bool // hard is, and both may be set
}

func locksOf(pid int) locks {
	var limit unix.Rlimit
	switch err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &limit); err {
	case nil:
		return locks{limit.Cur, limit.Max, true}
	case unix.EPERM: // it runs as another user
		soft, _ := proc.SoftLimit(pid, proc.LimitLocks) // 0, if it has ended
		return locks{soft: soft}
	}
	return locks{}
}

func (l locks) tag() tag {
	if l.soft>>tagBits != uint64(tagMagic>>tagBits) {
		return 0
	}
	return tag(l.soft)
}

// inGroup: it is a member of a group, or one that has left it.
func (l locks) inGroup() bool { return l.soft>>tagBits == uint64(freeze.NewTag(0)>>tagBits) }

// put tags a process that can't end meanwhile, or whose pidfd is asked afterwards.
func (t tag) put(pid int, had locks) error {
	if !had.known {
		return unix.EPERM
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(t), Max: had.hard}, nil); err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	return nil
}

// everybody lists the processes that we see.
func everybody() (pids []int, err error) {
	err = proc.Each(func(pid int) bool {
		pids = append(pids, pid)
		return true
	})
	return pids, err
}

// untag takes the tag off a process that tags what it starts itself, if nobody has set that limit.
func untag(pid int, had locks) {
	if had.known && had.tag() != 0 {
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: had.hard, Max: had.hard}, nil) // or it has ended
	}
}
