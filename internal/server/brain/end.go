// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// end reports the end of a server, and removes its empty group. The brain before may have done a part of
// that.
func (b *Brain) end() {
	s := b.Server
	decided := &s.Page.ByBrain
	mustReport := !decided.Reported && s.Page.ByLauncher.FailedStep == page.StepNone
	s.noteGuards()
	if !decided.Start.Begun {
		b.settleEnded(mustReport)
	}
	b.actor.killer.killLeftOvers()
	if mustReport {
		b.reportEnd()
	}
	decided.Reported = true
	b.actor.killer.publishEnd()
	s.closeReport()
	b.actor.killer.awaitStuck()
	_ = s.Group.Remove() // a sweep removes what can't be removed now
	if s.Config.StartedByClient {
		s.Group.Nudge() // the scope's first process has ended long before
	}
	s.Guard.Send(page.WordDone)
	b.settling.sweeping.Wait()
	if swept := b.actor.killer.swept; swept != nil {
		swept.Await() // the launcher does not wait for directories of nested servers
	}
}

// settleEnded makes up for tasks of the start, of a server that has ended before they were done.
func (b *Brain) settleEnded(mustReport bool) {
	if mustReport && !b.Server.Config.StartedByClient {
		b.Server.logStart()
	}
	if b.Server.Page.ByLauncher.EndLeft == page.LeftReturned { // otherwise killLeftOvers sweeps
		b.settling.beginSweep()
	}
}

// reportEnd logs and reports the end, with the status of the main process.
func (b *Brain) reportEnd() {
	b.awaitStatus()
	life := b.actor.life
	k := b.actor.killer
	if life.Cause == causes.MainExited && k.record.killedForMemory() { // there was no status before
		life.Cause = causes.MemoryExhausted
	}
	k.stopContainers(b.Server.Config.Policy.TermGrace)
	k.record.write(life.Cause, life.Signal, k.leftForPeople())
}

// awaitStatus waits for the status of the main process, which the launcher may reap after the group is empty.
func (b *Brain) awaitStatus() {
	s := b.Server
	isReapable := s.Page.ByLauncher.MainPID > 0 && len(b.actor.killer.stuck) == 0
	if !isReapable {
		return
	}
	deadline := time.Now().Add(policy.ReactWithin)
	for !s.Page.Exited() && s.launcherLives() && time.Now().Before(deadline) {
		hasNews := linux.AwaitWithin(s.Guard.Sock, unix.POLLIN, statusEvery)
		if hasNews && s.Guard.Drain() {
			return // the guard is dead
		}
	}
}

// statusEvery: the launcher sends the guard a word for the status, and the guard the brain. It may have done
// so already.
const statusEvery = 10 * time.Millisecond
