// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/decide"
	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Watched is a server of a gateway, as its watcher looks after it: the watcher is its guard, too.
type Watched struct {
	Server *Server
	Loop   *loop.Loop
	Events int // of the group, or -1

	settling   settling
	looks      looks
	keeping    keeping
	stop       watchedStop
	emptyPause time.Duration // between two checks whether a stop has left a member
	stdinDue   time.Time     // of the next look whether the client has closed stdin, where no event says so
}

// NewWatched returns a server without a group: see Begin.
func NewWatched(s *Server, l *loop.Loop) *Watched {
	return &Watched{
		Server: s, Loop: l, Events: -1,
		settling: settling{server: s}, keeping: keeping{server: s},
		stop: watchedStop{server: s, loop: l, ending: newEnding(s), holder: -1},
	}
}

// Begin has the events of the group reported, when there is one.
func (w *Watched) Begin() error {
	s := w.Server
	w.stop.generation = s.Page.ByGuard.Generation
	if s.Page.ByLauncher.StartedAt == 0 { // otherwise it is a server of the watcher before
		s.Page.ByLauncher.StartedAt = clock()
	}
	if s.Group.InSession { // kills from now on count
		w.stop.ending.record.measure()
	}
	w.Events = s.Group.Events()
	return w.Loop.Add(w.Events, loop.TokenEvents)
}

// attend begins to look after a server whose client's side this is.
func (w *Watched) attend(in *client.Side) {
	w.stop.client = in
	w.looks = looks{server: w.Server, client: in}
}

// TakeOver goes on with a server of the watcher before: it watches the client's side, or goes on with a stop.
func (w *Watched) TakeOver(in *client.Side) error {
	w.attend(in)
	seen := &w.Server.Page.ByGuard
	switch {
	case seen.Stop.State.Phase == decide.Terminating && !seen.Stop.Asked:
		w.stop.ask()
	case w.Server.isStopping():
		_ = w.Server.Group.Members().Thaw() // it was removed
	default:
		w.Server.Page.ByHelper.Frozen = false
		w.looks.resume()
		if in.IsOnlySeen() { // see Settle
			w.looks.sleeper = nil
		}
	}
	if err := w.addInput(); err != nil {
		return err
	}
	if in.Server.Main < 0 { // it has ended without a watcher
		w.Loop.Report(loop.TokenMain)
	}
	return in.Add(w.Loop)
}

// Settle settles the start. It calls the function when a manager has answered.
func (w *Watched) Settle(in *client.Side, adopted func()) {
	w.attend(in)
	w.looks.begin(false)
	if w.looks.sleeper != nil && in.IsOnlySeen() {
		const why = "its input cannot be watched without the right to ptrace (yama, docker's filter)"
		w.Server.Note("never frozen when idle: " + why)
		w.looks.sleeper = nil
	}
	if err := w.addInput(); err != nil { // which would not thaw it
		w.Server.Note("never frozen when idle: " + err.Error())
		w.looks.sleeper = nil
	}
	w.settling.begin()
	w.settling.tasks.Go(func() {
		w.Server.Group.Manager().AwaitAnswer()
		adopted()
	})
}

// AwaitSettled waits for all tasks of the start that have begun.
func (w *Watched) AwaitSettled() { w.settling.tasks.Wait() }

// Live returns after the end of the server, or when another watcher has it.
func (w *Watched) Live() {
	defer w.stop.closeHolder()
	w.keeping.begin()
	w.lookForRequest() // one that was made before the loop had the events of the group
	for !w.stop.isLeft() {
		w.looks.lookIfDue()
		w.keeping.lookIfDue()
		w.seeIdle()
		w.seeStdin()
		if w.stop.step() {
			w.end()
			return
		}
		w.watchInput()
		w.handle(w.Loop.Next(w.deadline()))
	}
}

// addInput has the input of a server reported that may be frozen: see watchInput.
func (w *Watched) addInput() error {
	if w.looks.sleeper == nil {
		return nil
	}
	return w.Loop.Add(int(w.stop.client.Server.Input), loop.TokenInput)
}

// watchInput has the next input of a frozen server reported.
func (w *Watched) watchInput() {
	if w.Server.Page.ByHelper.Frozen {
		w.Loop.Again(int(w.stop.client.Server.Input), loop.TokenInput)
	}
}

// mainExited writes the time to the page, where a launcher would. The kernel may have killed the whole group
// for its memory: so it measures at once, before a manager has removed what is empty.
func (w *Watched) mainExited() {
	w.stop.ending.record.measureEarly()
	at := &w.Server.Page.ByLauncher.ExitedAt
	if *at == 0 {
		*at = clock()
	}
	w.wake(false)
}

// seeIdle notes the event that a look brings.
func (w *Watched) seeIdle() {
	if page.IsNewlyIdle(w.Server.Page) {
		w.happened(page.IdleTooLong)
	}
}

// stdinEvery is between two looks, which are a part of the EOF grace.
const stdinEvery = 500 * time.Millisecond

// seeStdin looks whether the client has closed stdin, where no event says so.
func (w *Watched) seeStdin() {
	in := w.stop.client
	now := time.Now()
	isWanted := in.IsOnlySeen() && w.Server.Page.ByGuard.Happened[page.StdinClosed] == 0
	if !isWanted {
		w.stdinDue = time.Time{}
		return
	}
	if now.Before(w.stdinDue) {
		return
	}
	w.stdinDue = now.Add(stdinEvery)
	if in.HasHungUp() {
		w.happened(page.StdinClosed)
		w.stdinDue = time.Time{}
	}
}

const (
	emptyCheckFirst = 2 * time.Millisecond
	emptyCheckMost  = 100 * time.Millisecond // a delayed notification can be lost; no event for a tree
)

// deadline is when there is something to do without an event; the zero time for never. After a stop has begun
// it looks, less and less often, whether a member is left.
func (w *Watched) deadline() time.Time {
	p := w.Server.Page
	due := p.ByGuard.Stop.State.Deadline
	if p.ByGuard.Stop.State.Phase >= decide.Leaving {
		w.emptyPause = min(max(2*w.emptyPause, emptyCheckFirst), emptyCheckMost)
		return fromMonotonic(decide.Earlier(due, clock()+int64(w.emptyPause)))
	}
	due = decide.Earlier(due, monotonic(earlier(w.looks.deadline(), w.keeping.deadline()), time.Now()))
	due = decide.Earlier(due, monotonic(w.stdinDue, time.Now()))
	return fromMonotonic(decide.Earlier(due, w.stop.askAt))
}

// end reports the end of the server, and removes its group.
func (w *Watched) end() {
	w.stop.ending.finish(func() {
		w.Server.Group.Manager().Nudge() // the scope's first process has ended long before
		w.settling.sweeping.Wait()
	})
}
