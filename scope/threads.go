//go:build linux

package scope

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// threadsInReserve is what either process has been seen to need at most, beyond those
// that it has by then.
const threadsInReserve = 6

// tasksAtLeast is what launcher, supervisor and guard have of processes and threads
// together when they are idle.
const tasksAtLeast = 40

// enoughTasks refuses a limit of processes under which the runtime would abort sooner or
// later. Root is exempt from it (setrlimit(2)).
func enoughTasks() error {
	var limit unix.Rlimit
	if os.Getuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil || limit.Cur >= tasksAtLeast {
		return nil
	}
	return fmt.Errorf("only %d processes and threads are allowed, and it takes %d: %w", limit.Cur, tasksAtLeast, unix.EAGAIN)
}

// reserveThreads makes the runtime start its threads while there may be any: it aborts
// the process when it can't, and a server that forks until a limit of processes is
// reached would take its own end with it. Threads that have nothing to do are kept.
func reserveThreads() {
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
