// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// turn is a lock that a user's processes take before they start a scope. A manager sends every signal to
// every private connection, so the work for starts at the same moment grows with the square of their number.
// With systemd 252, two processors and other load, 80 starts took 6.1 s, and all of 160 found no scope in
// time. With turns they took 3.3 s and 8.3 s.
//
// The lock is on the directory that has the manager's socket. It is below a directory of mode 0700, so no
// other user can take it. Root does without: its servers start before their scopes do.
type turn struct{ fd int }

// noTurn is for a process that starts its scope beside others.
var noTurn = turn{fd: -1}

// turnWithin bounds the wait: a process may be stopped in its turn.
const turnWithin = 4 * time.Second

func turnDirectory() string { return runtimeDir() + "/systemd" }

// awaitTurn waits for the turn of this process, if the directory exists.
func awaitTurn(dir string, within time.Duration) turn {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return noTurn
	}
	t := turn{fd: fd}
	if unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return t
	}
	// flock(2) has no time-out. Hundreds of processes that try again each millisecond would take the
	// processor from the manager.
	locked := make(chan struct{})
	go func() {
		defer close(locked)
		for unix.Flock(fd, unix.LOCK_EX) == unix.EINTR { // by a signal to the Go runtime
		}
	}()
	select {
	case <-locked:
		return t
	case <-time.After(within):
	}
	go func() { // the lock comes too late to be used
		<-locked
		t.end()
	}()
	return noTurn
}

// end lets the next process start. A child that was forked meanwhile has the lock as well, so a close of the
// descriptor would not be enough.
func (t turn) end() {
	if t.fd < 0 {
		return
	}
	_ = unix.Flock(t.fd, unix.LOCK_UN) // of our own descriptor it can't fail
	_ = unix.Close(t.fd)
}
