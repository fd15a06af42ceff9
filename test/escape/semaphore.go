// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Slots bounds the work that goes on at a time on the whole machine: test binaries that run side by side share the
// slots by locks on files in the directory of SharedEnv. Without such a directory each binary has slots of its own.
var Slots = &Semaphore{dir: os.Getenv(SharedEnv), tokens: make(chan struct{}, slotCount())}

// slotCount is for cells, which wait more than they work.
func slotCount() int { return 4 * runtime.NumCPU() }

// A Semaphore bounds work; heavy work takes several of its tokens.
type Semaphore struct {
	taking sync.Mutex // one taker at a time, or two could each hold half
	tokens chan struct{}
	dir    string // of a file for each token, and of one for taking, or ""
}

// NewSemaphore has n tokens, for this binary alone.
func NewSemaphore(n int) *Semaphore {
	return &Semaphore{tokens: make(chan struct{}, n)}
}

// All is the weight of work beside which there may be no other.
const All = 1 << 20

// Take takes n tokens, or all there are.
func (s *Semaphore) Take(n int) (release func()) {
	n = min(n, cap(s.tokens))
	s.taking.Lock()
	defer s.taking.Unlock()
	if s.dir == "" {
		for range n {
			s.tokens <- struct{}{}
		}
		return func() {
			for range n {
				<-s.tokens
			}
		}
	}
	taking := s.lock("taking", unix.LOCK_EX)
	defer unix.Close(taking)
	locks := make(map[int]int)                                             // descriptors by token
	for _, how := range []int{unix.LOCK_EX | unix.LOCK_NB, unix.LOCK_EX} { // those that are free, then those that will be
		for _, i := range rand.Perm(cap(s.tokens)) {
			if _, mine := locks[i]; mine || len(locks) == n {
				continue
			}
			if fd := s.lock(tokenFile(i), how); fd >= 0 {
				locks[i] = fd
			}
		}
	}
	return func() {
		for _, fd := range locks {
			unix.Close(fd)
		}
	}
}

func tokenFile(i int) string { return fmt.Sprint("slot.", i) }

// lock returns a descriptor that holds the lock, or -1.
func (s *Semaphore) lock(name string, how int) int {
	fd, err := unix.Open(filepath.Join(s.dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(fmt.Sprintf("the slots of %s: %v: Build makes them", SharedEnv, err))
	}
	for {
		switch unix.Flock(fd, how) {
		case nil:
			return fd
		case unix.EINTR:
		default:
			unix.Close(fd)
			return -1
		}
	}
}

// makeSlots makes the files: a booted host sees them read-only.
func makeSlots() error {
	dir := os.Getenv(SharedEnv)
	if dir == "" {
		return nil
	}
	for i := range slotCount() + 1 {
		name := tokenFile(i)
		if i == slotCount() {
			name = "taking"
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}
