// SPDX-License-Identifier: Apache-2.0

// Package pace has a clock for deadlines of tests that runs no faster than the machine works: what must
// happen within 30 s of it may take minutes where other load or slow page faults delay everything, and the
// test still waits.
//
// Two threads of this process pass a byte to and fro and compute and touch memory between, as the processes
// of a test do. A round that takes longer than on a quiet machine moves the clock by accordingly less than
// the time that passed.
package pace

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// pause is the sleep of the threads between rounds; work is a generous time for a round on a quiet
	// machine.
	pause = time.Second
	work  = 10 * time.Millisecond
	// turns of each thread in a round. Each turn is a wake-up, which waits for a processor like any other.
	turns = 5
)

var (
	epoch   = time.Now()
	elapsed atomic.Int64 // since epoch, on the clock
	running sync.Once
)

// Now is the time on the clock. It is for deadlines alone: it agrees with no other clock.
func Now() time.Time {
	running.Do(start)
	return epoch.Add(time.Duration(elapsed.Load()))
}

// Until is the time that is left on the clock.
func Until(deadline time.Time) time.Duration { return deadline.Sub(Now()) }

// Step bounds a wait in real time between two readings of the clock.
func Step(deadline time.Time) time.Duration { return max(min(Until(deadline), pause), 0) }

// Eventually asks until done is so, for at most d on the clock. It is for states without an event.
func Eventually(d time.Duration, done func() bool) bool {
	for deadline := Now().Add(d); !done(); time.Sleep(5 * time.Millisecond) {
		if Until(deadline) <= 0 {
			return false
		}
	}
	return true
}

// Context is done when d has passed on the clock.
func Context(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for deadline := Now().Add(d); Until(deadline) > 0; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(Step(deadline)):
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// After receives when d has passed on the clock.
func After(d time.Duration) <-chan struct{} {
	ctx, _ := Context(d) // lasts until then
	return ctx.Done()
}

func start() {
	there := new([2]int)
	back := new([2]int)
	if errors.Join(unix.Pipe2(there[:], unix.O_CLOEXEC), unix.Pipe2(back[:], unix.O_CLOEXEC)) != nil {
		// No descriptors: then deadlines are real time's.
		there = nil
		back = nil
	} else {
		go func() {
			runtime.LockOSThread()
			for turn(there, nil) && turn(nil, back) {
			}
		}()
	}
	go func() {
		runtime.LockOSThread()
		for {
			time.Sleep(pause)
			elapsed.Add(int64(advance(round(there, back))))
		}
	}()
}

// advance is the step of the clock for a round and the pause before it.
func advance(took time.Duration) time.Duration {
	return time.Duration(float64(pause) * float64(work) / float64(max(took, work)))
}

func round(there, back *[2]int) time.Duration {
	began := time.Now()
	for range turns {
		if there == nil || !turn(nil, there) || !turn(back, nil) {
			return 0
		}
	}
	return time.Since(began)
}

// turn waits for the byte, works, and passes it on.
func turn(from, to *[2]int) bool {
	var b [1]byte
	if from != nil {
		if !retry(func() (int, error) { return unix.Read(from[0], b[:]) }) {
			return false
		}
		compute()
	}
	return to == nil || retry(func() (int, error) { return unix.Write(to[1], b[:]) })
}

func retry(call func() (int, error)) bool {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n == 1 && err == nil
		}
	}
}

// sink keeps the compiler from removing the work.
var sink atomic.Uint64

// compute takes about 0.3 ms on a quiet machine: a loop, and 64 page faults.
func compute() {
	x := uint64(os.Getpagesize())
	for range 300_000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	const pages = 64
	if memory, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err == nil {
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = byte(x)
		}
		_ = unix.Munmap(memory) // ours
	}
	sink.Add(x)
}
