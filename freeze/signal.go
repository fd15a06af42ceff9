// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// batch is the number of pidfds that are open at a time. A group can have more members than the limit of
// descriptors.
const batch = 256

// Signal sends the signals, in this order, to every member once, and returns the pids that it reached. It
// ignores members that are forked meanwhile: a server may start commands to clean up.
func Signal(g Target, sigs ...unix.Signal) ([]int, error) {
	pids, err := g.Members()
	slices.Sort(pids)
	pids = slices.Compact(pids)
	var reached []int
	for part := range slices.Chunk(pids, batch) {
		some, again := signalSome(g, part, sigs)
		reached = append(reached, some...)
		err = errors.Join(err, again)
	}
	return reached, err
}

// signalSome is safe against reuse of pids. It opens a pidfd for each listed pid, and uses it only if the
// group lists the pid again. If the pid was reused before the open, the second list lacks it; if after, the
// pidfd refers to a dead member.
func signalSome(g Target, pids []int, sigs []unix.Signal) ([]int, error) {
	fds := make(map[int]int, len(pids))
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd) // a pidfd has nothing to flush
		}
	}()
	for _, pid := range pids {
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			fds[pid] = fd
		}
	}
	again, err := g.Members()
	slices.Sort(again)
	var reached []int
	for _, pid := range pids {
		fd, open := fds[pid]
		_, member := slices.BinarySearch(again, pid)
		if open && member && send(fd, sigs) {
			reached = append(reached, pid)
		}
	}
	return reached, err
}

// send is best effort: EPERM for a setuid member of another user, which cgroup.kill reaches, ESRCH for a
// member that has exited.
func send(pidfd int, sigs []unix.Signal) bool {
	sent := false
	for _, sig := range sigs {
		sent = unix.PidfdSendSignal(pidfd, sig, nil, 0) == nil || sent
	}
	return sent
}
