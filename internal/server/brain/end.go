// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// claimEnd has this brain end the server. It fails if the launcher does, of whose server nothing is left.
func (b *Brain) claimEnd() bool {
	ender := &b.Page.ByBrain.Ender
	if atomic.CompareAndSwapUint32(ender, page.NotEnding, page.EndedByBrain) {
		return true
	}
	return atomic.LoadUint32(ender) == page.EndedByBrain || !b.launcherLives()
}

// end is for an empty group. The brain before may have done a part of it.
func (b *Brain) end() {
	own := &b.Page.ByBrain
	b.noteGuards()
	reports := !own.Reported && b.Page.ByLauncher.FailedStep == page.StepNone
	if reports && !own.Settled && !b.Config.Taken {
		b.logStart()
	}
	if !own.Settled && b.Page.ByLauncher.Returned { // otherwise endLeftOvers sweeps
		b.beginSweep()
	}
	b.endLeftOvers()
	if reports {
		b.reportEnd()
	}
	own.Reported = true
	b.publishEnd()
	if len(b.stuck) > 0 {
		own.BrainReactsBy = 0
		own.Stuck = true
		b.Guard.Look()
		b.awaitStuck()
	}
	b.sweep.Wait()
	_ = b.Group.Remove() // a sweep removes what can't be removed now
	if b.Config.Taken {
		b.Group.Nudge() // the scope's first process has ended long before
	}
	b.Guard.Send(page.WordDone)
	if b.swept != nil {
		b.swept.Await() // the launcher does not wait for directories of nested servers
	}
}

// reportEnd logs and reports the end, with the status of the main process.
func (b *Brain) reportEnd() {
	b.awaitStatus()
	if b.life.Cause == protocol.MainExited && b.killedForMemory() { // there was no status before
		b.life.Cause = protocol.MemoryExhausted
	}
	b.endContainers(b.Config.Policy.TermGrace)
	b.writeReport(b.life.Cause, b.life.Signal)
}

// awaitStuck waits for members that SIGKILL has not ended. While their state cannot be read they are there.
func (b *Brain) awaitStuck() {
	for {
		empty, err := freeze.AwaitEmpty(b.Group.Members(), time.Time{})
		if empty || proc.IsGone(err) {
			return
		}
		time.Sleep(protocol.IdleWindow)
	}
}

// awaitStatus waits for the status of the main process, which the launcher may reap after the group is empty.
func (b *Brain) awaitStatus() {
	for until := time.Now().Add(protocol.ReactWithin); b.Page.ByLauncher.MainPID > 0 && len(b.stuck) == 0; {
		if b.Page.Exited() || !b.launcherLives() || !time.Now().Before(until) {
			return
		}
		if linux.AwaitEnd(b.Guard.Sock, unix.POLLIN, statusEvery) && b.Guard.Drain() {
			return
		}
	}
}

// statusEvery: the launcher sends the guard a word for the status, and the guard the brain. It may have done
// so already.
const statusEvery = 10 * time.Millisecond
