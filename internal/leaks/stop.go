// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/linux"
)

// ErrChanged is of a process that is no leak any more.
var ErrChanged = errors.New("it has changed since it was looked at")

// killWithin is how long a process may take to die.
const killWithin = 2 * time.Second

// Stop ends it, with all below it: what is below first, while it is stopped and starts nothing, then itself, and
// then what has its stdin and was left by that. It looks again before: somebody may have taken it on.
func (l *Leak) Stop(grace time.Duration) error {
	if linux.Ended(l.pidfd) {
		return nil
	}
	if !l.is() || !linux.Closed(l.PID, 0) {
		return ErrChanged
	}
	others, err := l.withItsStdin()
	if err != nil {
		return err
	}
	err = end(l.PID, l.pidfd, l.UID, unix.SIGTERM, grace)
	for range restPasses {
		some, restErr := l.endRest(others)
		if err = errors.Join(err, restErr); !some {
			break
		}
	}
	return err
}

// restPasses bound how often what is left may leave something in its turn.
const restPasses = 20

// end ends a process with all below it. What it is asked by is no signal to ask nobody.
func end(pid, pidfd, uid int, ask unix.Signal, grace time.Duration) error {
	root, err := freeze.NewRoot(pidfd)
	if err != nil {
		return err
	}
	below := &freeze.Tree{Roots: []freeze.Root{root}, Owner: uid, OwnersOnly: true}
	stop := func(ask unix.Signal, grace time.Duration) error {
		if err := unix.PidfdSendSignal(pidfd, unix.SIGSTOP, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stop process %d: %w", pid, err)
		}
		result, err := freeze.Stop{Target: below, Ask: ask, Grace: grace}.Run()
		for _, s := range result.Stuck {
			err = errors.Join(err, fmt.Errorf("not all has ended: %v", s))
		}
		return err
	}
	if err := stop(ask, grace); err != nil {
		return err
	}
	if ask != 0 {
		for _, sig := range []unix.Signal{ask, unix.SIGCONT} {
			_ = unix.PidfdSendSignal(pidfd, sig, nil, 0) // it may have ended
		}
		if ended(pidfd, grace) {
			return nil
		}
		if err := stop(0, 0); err != nil { // what it has started when it was asked
			return err
		}
	}
	_ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) // as above
	if !ended(pidfd, killWithin) {
		return fmt.Errorf("process %d does not end", pid)
	}
	return nil
}

// withItsStdin lists what has the leak's own stdin, to which nobody can write, and is nobody's child any more, with the time
// of its start.
func (l *Leak) withItsStdin() (map[int]uint64, error) {
	all, _, err := everybody()
	found := map[int]uint64{}
	for pid, p := range all {
		if p.uid == l.UID && p.PPID == l.Parent && link(pid, 0) == l.stdin {
			found[pid] = p.StartTime
		}
	}
	return found, err
}

// endRest kills what is such a process now and was none before: it has been below the leak. some: there was one.
func (l *Leak) endRest(before map[int]uint64) (some bool, err error) {
	now, err := l.withItsStdin()
	for pid, start := range now {
		if was, there := before[pid]; there && was == start {
			continue
		}
		pidfd, openErr := unix.PidfdOpen(pid, 0)
		if openErr != nil {
			continue // it has ended
		}
		if link(pid, 0) == l.stdin {
			some = true
			err = errors.Join(err, end(pid, pidfd, l.UID, 0, 0))
		}
		_ = unix.Close(pidfd)
	}
	return some, err
}

func ended(pidfd int, within time.Duration) bool {
	_, _ = linux.PollUntil(time.Now().Add(within), unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN}) // whatever it says, we look
	return linux.Ended(pidfd)
}
