// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// ending is what follows when a server is stopped.
type ending struct {
	server *Server
	record *record
	stuck  []freeze.Stuck
	undone string       // containers that may be left
	swept  *sweep.Begun // nil, unless nested servers may have been left
}

func newEnding(s *Server) ending { return ending{server: s, record: &record{server: s}} }

// finish reports the end, and removes the group. It calls removed before it waits for directories of nested
// servers, for which nobody else waits.
func (e *ending) finish(removed func()) {
	e.sweepNested()
	e.report()
	e.server.closeReport()
	e.awaitStuck()
	_ = e.server.Group.Remove() // a sweep removes what can't be removed now
	if e.swept != nil {
		e.server.Page.ByHelper.Start.Sweeping = true // the guard does not kill this process then
	}
	removed()
	e.awaitSwept()
}

// mustReport reports whether there was a server, and its end is not reported yet.
func (e *ending) mustReport() bool {
	p := e.server.Page
	return !p.ByHelper.Reported && p.ByLauncher.FailedStep == page.StepNone
}

// report logs and reports the end, with the status of the main process, and has the launcher print it.
func (e *ending) report() {
	s := e.server
	s.noteGuards()
	if !s.Config.StartedByClient {
		e.findStuck()
	}
	if e.mustReport() {
		e.awaitStatus()
		e.stopContainers(s.Config.Facts.Policy.TermGrace)
		e.record.write(e.leftForPeople())
	}
	s.Page.ByHelper.Reported = true
	e.publish()
}

// sweepNested ends servers that were started below this one, and whose guards may have been killed with it.
func (e *ending) sweepNested() {
	p := e.server.Page
	if p.Found.Killed.Total == 0 && p.ByGuard.Happened[page.LauncherDied] == 0 {
		return
	}
	e.swept = sweep.BeginSweep(e.server.Group.Beside())
	e.swept.AwaitDeaths(nestedWithin)
}

// nestedWithin and statusWithin together are less than the guard gives a helper.
const nestedWithin = 2 * time.Second

func (e *ending) awaitSwept() {
	if e.swept != nil {
		e.swept.Await()
	}
}

// findStuck finds the members that the guard's SIGKILL has not ended.
func (e *ending) findStuck() {
	if e.server.Page.ByGuard.Stop.State.IsStuck() {
		e.stuck = freeze.Left(e.server.Group.Members())
	}
}

// awaitStatus waits for the status of the main process, which the launcher may reap after the group is empty.
func (e *ending) awaitStatus() {
	s := e.server
	isReapable := s.Page.ByLauncher.MainPID > 0 && len(e.stuck) == 0
	if !isReapable {
		return
	}
	deadline := time.Now().Add(statusWithin)
	for !s.Page.Exited() && s.launcherLives() && time.Now().Before(deadline) {
		time.Sleep(statusEvery) // the launcher writes it to the page
	}
}

const (
	statusEvery  = time.Millisecond
	statusWithin = 2 * time.Second
)

// stopContainers stops the containers that an engine runs for the server. A server that its client has
// started has no label to find them by.
func (e *ending) stopContainers(grace time.Duration) {
	s := e.server
	c := s.Config
	if c.Facts.Engine == "" || c.StartedByClient {
		return
	}
	err := container.End(c.Group.ID, c.Argv, s.Env, grace)
	if err == nil {
		e.undone = ""
		return
	}
	status := unix.WaitStatus(s.Page.Status()).ExitStatus()
	// statuses of an engine that could not start a container, and of a shell that could not start the engine
	hasNoContainer := s.Page.Exited() && status >= 125 && status <= 127
	if hasNoContainer {
		s.Note(err.Error())
		return
	}
	e.undone = err.Error()
}

// publish writes to the page the notes and the left members, which the launcher prints.
func (e *ending) publish() {
	s := e.server
	notes := slices.Clone(s.Config.Output.Notes)
	if e.record.sentence != "" {
		notes = append(notes, e.record.sentence)
	}
	setText(s.Page.ByHelper.EndNotes[:], "mcpscope: note: ", notes)
	setText(s.Page.ByHelper.Left[:], "", e.leftForPeople())
}

// leftForPeople describes members and containers that may be left.
func (e *ending) leftForPeople() []string {
	var left []string
	for _, member := range e.stuck[:min(len(e.stuck), report.NamedMost)] {
		left = append(left, member.Text)
	}
	if e.undone != "" {
		left = append(left, e.undone)
	}
	return left
}

// awaitStuck waits for members that SIGKILL has not ended. The launcher does not wait for them. While their
// state cannot be read they are there.
func (e *ending) awaitStuck() {
	if len(e.stuck) == 0 {
		return
	}
	s := e.server
	s.Page.ByHelper.Stuck = true
	s.Guard.Look()
	for {
		empty, err := freeze.AwaitEmpty(s.Group.Members(), time.Time{})
		if empty || proc.IsGone(err) {
			return
		}
		time.Sleep(policy.IdleWindow)
	}
}
