// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package signals catches signals of this process, as os/signal does. Its Notify costs two changes of threads
// for each signal: 1.7 ms of the 8 that a server of nothing takes. Here it is one system call, and no signal
// needs a thread, which processes that are used up would refuse. A handler writes the number to a pipe, and
// does nothing else; the loop of the launcher waits for it.
//
// The runtime still has the handlers of all others, and of those that are never caught. Nothing is given
// back.
package signals

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// last is the highest number of a signal.
const last = 64

// tries is how often in a row the pipe may fail, for want of memory at one moment.
const tries = 16

var caught = struct {
	sync.Mutex
	read, write int                // the ends of the pipe, or -1
	blocked     uint64             // of those that are caught, whom the client has blocked
	unblock     chan<- unix.Signal // to the thread that has them not
	failed      int                // reads in a row
}{read: -1, write: -1}

// Catch has Pending return these signals. Only the first call can fail, for lack of descriptors.
func Catch(sigs ...unix.Signal) error {
	caught.Lock()
	defer caught.Unlock()
	if caught.read < 0 {
		if err := open(); err != nil {
			return err
		}
	}
	mask := Mask()
	for _, sig := range sigs {
		catch(sig)
		if bit := uint64(1) << (sig - 1); mask&bit != 0 && caught.blocked&bit == 0 {
			caught.blocked |= bit
			unblock(sig)
		}
	}
	return nil
}

func open() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("create pipe: %w", err)
	}
	caught.read, caught.write = ends[0], ends[1]
	writeTo(ends[1])
	return nil
}

// FD polls readable when there is something pending. It is -1 before the first Catch.
func FD() int {
	caught.Lock()
	defer caught.Unlock()
	return caught.read
}

// Pending returns signals in the order in which they came, and does not wait. If FD is still readable there
// are more. It is for one goroutine.
func Pending() (sigs []unix.Signal) {
	var numbers [last]byte
	n, err := unix.Read(FD(), numbers[:])
	if err == nil || err == unix.EAGAIN {
		caught.failed = 0
	} else if caught.failed++; caught.failed == tries {
		panic("bug: read from a pipe of our own: " + err.Error()) // no signal would arrive any more
	}
	for _, number := range numbers[:max(n, 0)] {
		sigs = append(sigs, unix.Signal(number))
	}
	return sigs
}
