//go:build linux

package tree

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/proc"
)

// Mark is carried by all that a process starts once it has it: a value of the soft limit of
// RLIMIT_LOCKS, which is inherited by fork, kept by execve, readable by all, and without a
// meaning since Linux 2.4.25. So it finds who is below none of our processes and in no group
// of ours. Who is started by a daemon has it not; who sets that limit loses it. 0 is none.
type Mark uint64

// A mark has more bits than any real limit, and fits what is signed.
const (
	markBits  = 40
	markMagic = Mark(0x6d6370) << markBits // "mcp"
)

// NewMark makes one of 40 bits.
func NewMark(bits uint64) Mark { return markMagic | Mark(bits&(1<<markBits-1)) }

func (m Mark) isMark() bool { return m>>markBits == markMagic>>markBits }

// Put marks a process that is held by a pidfd, but not those it has started before. Without
// CAP_SYS_RESOURCE it has to be of the same user, and its hard limit large enough. A pid that
// was reused meanwhile is nobody's: its holder gets back what it had.
func (m Mark) Put(pid, pidfd int) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, nil, &old); err != nil {
		return fmt.Errorf("read RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	if !(Root{PIDFD: pidfd}).alive() {
		return unix.ESRCH
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(m), Max: old.Max}, nil); err != nil {
		return fmt.Errorf("set RLIMIT_LOCKS of process %d: %w", pid, err)
	}
	if !(Root{PIDFD: pidfd}).alive() {
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &old, nil) // of nobody, as a rule
		return unix.ESRCH
	}
	return nil
}

// ClearMark is for a process that starts what is not to be found by the mark that it was
// started with: a group of its own.
func ClearMark() {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_LOCKS, &limit) == nil && Mark(limit.Cur).isMark() {
		limit.Cur = limit.Max
		_ = unix.Setrlimit(unix.RLIMIT_LOCKS, &limit) // the soft limit may always be the hard one
	}
}

// carriers lists who has the mark, wherever it is.
func (m Mark) carriers() ([]proc.Stat, error) {
	if !m.isMark() {
		return nil, nil
	}
	pids, err := proc.All()
	if err != nil {
		return nil, err
	}
	var found []proc.Stat
	for _, pid := range pids {
		if soft, ok := proc.SoftLimit(pid, proc.LimitLocks); !ok || Mark(soft) != m {
			continue
		}
		if st, err := proc.ReadStat(pid); err == nil && !zombie(st) { // ended, or hidden from us
			found = append(found, st)
		}
	}
	return found, nil
}
