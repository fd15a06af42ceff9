// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
)

// readTries is how often in a row a read may fail.
const readTries = 10

// last is the highest number of a signal.
const last = 64

var caught struct {
	sync.Mutex
	pipe    *os.File
	to      [last + 1]chan<- os.Signal
	blocked uint64             // of those, whom the client has blocked
	unblock chan<- unix.Signal // to the thread that has them not
}

// Notify has the signals sent to c, one that finds it full is lost. What was sent before to another channel goes to c alone. It fails
// the first time alone, where there are no descriptors.
func Notify(c chan<- os.Signal, sigs ...os.Signal) error {
	caught.Lock()
	defer caught.Unlock()
	if caught.pipe == nil {
		if err := open(); err != nil {
			return err
		}
	}
	mask := linux.SignalMask()
	for _, s := range sigs {
		sig := s.(unix.Signal)
		caught.to[sig] = c
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
	caught.pipe = os.NewFile(uintptr(ends[0]), "signals")
	if err := caught.pipe.SetReadDeadline(time.Time{}); err != nil { // the runtime could not add it to what it waits for
		_, _ = caught.pipe.Close(), unix.Close(ends[1]) // nothing was written to it
		caught.pipe = nil
		return fmt.Errorf("wait for a pipe: %w", err)
	}
	writeTo(ends[1])
	go pass()
	return nil
}

// pass passes on what the handler has written.
func pass() {
	var numbers [last]byte
	for failed := 0; ; {
		n, err := caught.pipe.Read(numbers[:])
		if err == nil {
			failed = 0
		} else if failed++; failed == readTries {
			panic("bug: read from a pipe of our own: " + err.Error()) // whoever does not hear of signals had better end
		}
		for _, sig := range numbers[:max(n, 0)] {
			caught.Lock()
			c := caught.to[sig]
			caught.Unlock()
			select {
			case c <- unix.Signal(sig):
			default:
			}
		}
	}
}
