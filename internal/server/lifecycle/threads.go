// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/hold"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// threadsInReserve is two more than either process has been seen to need, beyond those that it has by then: the ladder,
// a sweep and what they wait for each block a thread.
const threadsInReserve = 5

// tasksAtLeast is what launcher, supervisor and guard have of processes and threads
// together when they are idle, 28, and what a start takes beside.
const tasksAtLeast = 35

// EnoughTasks refuses a limit of processes under which the runtime would abort sooner or
// later. Root is exempt from it (setrlimit(2)). What counts for the limit is what the user has in all
// pid namespaces, which nobody can list; so where all that runs on this machine does not prove that
// there is room, it is tried.
func EnoughTasks() error {
	var limit unix.Rlimit
	if os.Getuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil {
		return nil
	}
	if running, err := proc.Tasks(); err == nil && uint64(running+tasksAtLeast) <= limit.Cur {
		return nil
	}
	if started, err := hold.TryStart(tasksAtLeast - tasksAlready); err != nil {
		return fmt.Errorf("%d more processes and threads can be started (at most %d are allowed), and it takes %d: %w",
			started, limit.Cur, tasksAtLeast-tasksAlready, err)
	}
	return nil
}

// tasksAlready is what a launcher has of them when it begins.
const tasksAlready = 5

// ReserveThreads makes the runtime start its threads while there may be any: it aborts
// the process when it can't, and a server that forks until a limit of processes is
// reached would take its own end with it. Threads that have nothing to do are kept.
func ReserveThreads() {
	var waiting sync.WaitGroup
	gate := make(chan struct{})
	for range threadsInReserve {
		waiting.Add(1)
		go func() {
			runtime.LockOSThread() // the next one needs another thread
			waiting.Done()
			<-gate
			runtime.UnlockOSThread()
		}()
	}
	waiting.Wait()
	close(gate)
}
