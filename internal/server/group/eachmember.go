// SPDX-License-Identifier: Apache-2.0

package group

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// Members that fork as fast as they are marked, or take their mark off again, would keep a command of root's
// busy for ever. It gives up after that time and so many rounds: a slow machine needs the time for a few.
const (
	marksWithin       = 250 * time.Millisecond
	markRoundsAtLeast = 5
)

var errForkTooFast = fmt.Errorf("members fork faster than they are reached: %w", unix.EAGAIN)

// markMembers marks all members. Those that a member forks later inherit its mark. So it looks again until
// all have one: a child that was forked before its parent was marked needs a mark of its own. mark returns
// ESRCH for a process that has ended or left. A child whose fork is under way can miss the mark: it has
// copied that of its parent before.
func markMembers(members freeze.Target, hasMark func(pid int) bool, mark func(pid int) error) error {
	begun := time.Now()
	for round := 1; ; round++ {
		pids, err := members.Members()
		if err != nil {
			return err
		}
		isComplete := true
		for _, pid := range pids {
			if hasMark(pid) {
				continue
			}
			isComplete = false
			if err := mark(pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		if isComplete {
			return nil
		}
		if round >= markRoundsAtLeast && time.Since(begun) >= marksWithin {
			return errForkTooFast
		}
	}
}

// open returns a pidfd of a member, or ESRCH if that has ended or left: the pid may be another's then.
func (m Membership) open(pid int) (pidfd int, err error) {
	pidfd, err = unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("open pidfd: %w", err)
	}
	inside := "/" + m.of.Dir + "/" // the id is unique
	where, err := proc.ReadCgroup(pid)
	if err != nil || !strings.Contains(where+"/", inside) {
		_ = unix.Close(pidfd)
		return -1, unix.ESRCH
	}
	return pidfd, nil
}
