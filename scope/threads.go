//go:build linux

package scope

import (
	"runtime"
	"sync"
)

// threadsInReserve is what either process has been seen to need at most, beyond those
// that it has by then.
const threadsInReserve = 6

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
