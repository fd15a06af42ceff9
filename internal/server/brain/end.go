// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// reported is the page's phase after the report: a later brain only waits and removes.
const reported = 100

// Outcome is how a server ended.
type Outcome struct {
	// Status is the main process's, from wait(2); Known is false where it could not be waited for.
	Status unix.WaitStatus
	Known  bool
	Notes  []string
	Stuck  []string // members that could not be killed
	// Reported: the report was written.
	Reported bool
}

func (b *Brain) end() {
	b.endLeftOvers()
	if b.Page.FailedStep == page.StepNone && b.Page.Phase != reported {
		b.awaitStatus()
		b.endContainers(b.Config.Policy.TermGrace)
		b.writeReport()
	}
	b.Page.Phase = reported
	if len(b.stuck) > 0 {
		if b.reign == 0 {
			return // a later brain waits for them
		}
		_, _ = freeze.AwaitEmpty(b.Group.Members(), time.Time{})
	}
	b.finish()
	_ = b.Group.Remove() // a sweep removes what can't be removed now
	if b.Config.Taken {
		b.Group.Nudge() // the scope's first process has ended long before
	}
	b.Guard.Send(page.WordDone)
	if b.reign == 0 {
		b.wait()
	}
}

// awaitStatus waits for the status of the main process, which the guard may reap after the group is empty.
func (b *Brain) awaitStatus() {
	for b.Page.MainPID > 0 && !b.Page.Exited && len(b.stuck) == 0 {
		if !linux.AwaitEnd(b.Guard.Sock, unix.POLLIN, protocol.ReactWithin) || b.Guard.Drain() {
			return
		}
	}
}

// wait waits for the guard's exit. A member may have stopped or traced the guard.
func (b *Brain) wait() {
	if !b.deposed() && !linux.AwaitEnd(b.Guard.PIDFD, unix.POLLIN, protocol.ReactWithin) {
		_ = unix.PidfdSendSignal(b.Guard.PIDFD, unix.SIGKILL, nil, 0) // it has exited
	}
	linux.AwaitUntil(time.Time{}, b.Guard.PIDFD, unix.POLLIN)
}

func (b *Brain) Outcome() (o Outcome, err error) {
	step, errno := b.Page.FailedStep, unix.Errno(b.Page.Errno)
	o = Outcome{
		Status: unix.WaitStatus(b.Page.Status), Known: b.Page.Exited, Notes: b.notesForPeople(),
		Stuck: b.stuckForPeople(), Reported: step == page.StepNone,
	}
	switch {
	case step == page.StepExec:
		err = &protocol.CommandError{Command: b.Config.Path, Errno: errno}
	case step != page.StepNone:
		err = fmt.Errorf("start the server: %v: %w", step, errno)
	case b.life.Cause == protocol.GuardGone:
		err = errors.New("the guard was killed, so the server was ended")
		for _, left := range o.Stuck {
			err = fmt.Errorf("%w, but %s is left", err, left)
		}
	}
	return o, err
}

// endContainers stops what an engine runs for the server. A server that its client has started has no label.
func (b *Brain) endContainers(grace time.Duration) {
	c := b.Config
	if c.Engine == "" || c.Taken {
		return
	}
	status := unix.WaitStatus(b.Page.Status).ExitStatus()
	switch err := container.End(c.Group.ID, c.Argv, b.Env, grace); {
	case err == nil:
		b.undone = ""
	// of an engine that could not start a container, and of a shell that could not start the engine
	case b.Page.Exited && status >= 125 && status <= 127:
		b.Note(err.Error())
	default:
		b.undone = err.Error()
	}
}

// endLeftOvers kills the members that left the group. They descend from the guard, a subreaper, while that
// lives. Otherwise they carry the tag; to search for it reads all processes of the host, 1 ms for 100 of
// them.
func (b *Brain) endLeftOvers() {
	below := group.Below(b.Guarded(), 0)
	alone := b.Page.Childless || below.RootAlone()
	if !alone {
		b.killAll(below, elsewhere)
		sweep.BeginSweep(b.Group.Beside())() // guards of nested servers may be among them
	}
	if !alone || b.Config.Taken {
		b.killAll(b.Group.Tagged(), elsewhere)
	}
}

// Guarded is the root of the tree of members that left the group.
func (b *Brain) Guarded() freeze.Root {
	return freeze.Root{PID: int(b.Page.GuardPID), PIDFD: b.Guard.PIDFD}
}

const elsewhere = "members in other cgroups could not be looked for: "

// recordOthers remembers, once, what else is there when a stop begins.
func (b *Brain) recordOthers() {
	if b.recorded || !report.Wanted(b.Config.Report) && !b.Config.Verbose {
		return
	}
	b.recorded = true
	main := int(b.Page.MainPID)
	if b.Config.Taken {
		main = b.Config.Main.PID
	}
	pids, _ := b.Group.Members().Members() // a partial list is better than none
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == main })
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		name, err := proc.Comm(pid)
		if err == nil { // it has not exited meanwhile
			b.others = append(b.others, name)
		}
	}
	b.othersTotal = len(pids)
}

// killAll kills members, and those that are re-parented to the guard by that. failed begins the note of an
// error.
func (b *Brain) killAll(members freeze.Target, failed string) {
	left, err := freeze.Stop{Target: members, Frozen: func() { b.inspect(members) }}.Run()
	b.stuck = freeze.AddStuck(b.stuck, left)
	if err != nil {
		b.Note(failed + protocol.OneLine(err))
	}
}

// inspect describes some members before they are killed.
func (b *Brain) inspect(members freeze.Target) {
	if !report.Wanted(b.Config.Report) && !b.Config.Verbose {
		return
	}
	pids, _ := members.Members() // a partial list is better than none
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		k := report.Killed{PID: pid}
		k.Name, _ = proc.Comm(pid)
		k.Command = proc.Cmdline(pid, protocol.CommandMost)
		b.killed = append(b.killed, k)
	}
	b.total += len(pids)
}

func (b *Brain) Note(text string) {
	if c := b.Config; text != "" && !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// notesForPeople adds how it ended.
func (b *Brain) notesForPeople() []string {
	notes := slices.Clone(b.Config.Notes)
	if b.sentence != "" {
		notes = append(notes, b.sentence)
	}
	return notes
}

func (b *Brain) stuckForPeople() (all []string) {
	for _, left := range b.stuck[:min(len(b.stuck), report.NamedMost)] {
		all = append(all, left.Text)
	}
	if b.undone != "" {
		all = append(all, b.undone)
	}
	return all
}

// describeEnd fills in a report. A server whose main process was waited for has a status.
func (b *Brain) describeEnd() *report.Report {
	c := b.Config
	r := report.New(c, b.life.Cause)
	r.Signal = unix.SignalName(b.life.Signal) // "" for another cause
	if ws := unix.WaitStatus(b.Page.Status); ws.Signaled() {
		r.ExitSignal = unix.SignalName(ws.Signal())
	} else if status := ws.ExitStatus(); b.Page.Exited {
		r.ExitStatus = &status
	}
	cpu := b.Group.Members().CPU().Round(time.Millisecond).Seconds()
	r.CPUSeconds = &cpu
	r.Figures = b.Group.Figures()
	r.Stopped = b.others
	r.StoppedTotal = b.othersTotal
	r.Killed = b.killed
	r.KilledTotal = b.total
	r.Stuck = b.stuckForPeople()
	r.Notes = c.Notes
	return r
}

func (b *Brain) writeReport() {
	c := b.Config
	if !report.Wanted(c.Report) && !c.Verbose {
		return
	}
	r := b.describeEnd()
	b.sentence = r.Sentence()
	r.Log()
	r.Write(c.Report)
}
