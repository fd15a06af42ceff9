// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// record collects during a stop what the report says of it.
type record struct {
	server    *Server
	hasOthers bool // others and othersTotal are recorded
	// others are the names of members beside the main process at the beginning of the stop.
	others      []string
	othersTotal int
	killed      []report.Killed
	killedTotal int // members that had to be killed
	last        readings
	sentence    string // about the end; "" if there is no report, and without -v
}

// readings are figures that a manager removes with the group, as soon as that is empty: a server that its
// client has started has no guard in its scope. So they are read before, too.
type readings struct {
	protocol.Figures
	cpu time.Duration
	// knowsCPU is false for a tree whose launcher is dead: the kernel counts ended members in their parent.
	knowsCPU bool
}

// measureEarly measures a server that its client has started, at the steps of a stop. The guard of any
// other server holds the scope until the end.
func (r *record) measureEarly() {
	if r.server.Config.StartedByClient {
		r.measure()
	}
}

func (r *record) measure() readings {
	cpu, err := r.server.Group.Members().CPU()
	figures := r.server.Group.Figures() // zero, if it was removed meanwhile
	isRemoved := err != nil || cpu < r.last.cpu || figures.OOMKills < r.last.OOMKills
	if !isRemoved {
		r.last = readings{
			Figures: figures, cpu: cpu,
			knowsCPU: r.server.Group.Payload != nil || r.server.launcherLives(),
		}
		return r.last
	}
	// A manager has removed the group, and its count of kills. That of its session has one more than when the
	// server was seen last, and it was seen at each kill before.
	hasLimit := r.last.SessionMax != nil
	if hasLimit && r.server.Group.SessionKills() > r.last.SessionKills {
		r.last.SessionExhausted = true
	}
	return r.last
}

// killedForMemory: the sender of a SIGKILL is unknown; but a kernel that kills whole groups has killed the
// main process. Of a server that its client has started only the client has the status.
func (r *record) killedForMemory() bool {
	s := r.server
	killed := s.Config.StartedByClient || unix.WaitStatus(s.Page.Status()).Signal() == unix.SIGKILL
	return killed && r.measure().Exhausted()
}

// causesSeen are the causes that a launcher finds on the page without a brain, by event. They have to be
// those of the lifecycle. MainExited is missing: it is the cause if no other event came first.
// LauncherDied is missing: then there is no launcher.
var causesSeen = [page.Events]causes.Cause{
	page.StdinClosed:   causes.StdinClosed,
	page.StdoutClosed:  causes.StdoutClosed,
	page.ClientDied:    causes.ClientDied,
	page.StopRequested: causes.StopRequested,
}

// causeSeen is the cause of a stop that needed no brain: the first event.
func (r *record) causeSeen() (causes.Cause, unix.Signal) {
	p := r.server.Page
	if p.ByBrain.Cause != 0 {
		return causeOn(p)
	}
	cause := causes.MainExited
	first := int64(0)
	isFirst := func(at int64) bool { return at != 0 && (first == 0 || at < first) }
	for event, why := range causesSeen {
		if at := p.ByGuard.Happened[event]; why != "" && isFirst(at) {
			cause = why
			first = at
		}
	}
	signal := p.ByLauncher.Signals[0]
	if p.ByLauncher.SignalsGot > 0 && isFirst(signal.At) {
		return causes.Signalled, unix.Signal(signal.Number)
	}
	if cause == causes.MainExited && r.killedForMemory() {
		return causes.MemoryExhausted, 0
	}
	return cause, 0
}

// recordOthers remembers, once, the members beside the main process when a stop begins.
func (r *record) recordOthers() {
	s := r.server
	if r.hasOthers || !s.isDescribed() {
		return
	}
	r.hasOthers = true
	main := int(s.Page.ByLauncher.MainPID)
	if s.Config.StartedByClient {
		main = s.Config.Main.PID
	}
	pids, _ := s.Group.PIDs() // a partial list is better than none
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == main })
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		name, err := proc.Comm(pid)
		if err == nil { // it has not exited meanwhile
			r.others = append(r.others, name)
		}
	}
	r.othersTotal = len(pids)
}

// inspect describes some members before they are killed.
func (r *record) inspect(members freeze.Target) {
	if !r.server.isDescribed() {
		return
	}
	pids, _ := members.Members() // a partial list is better than none
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		k := report.Killed{PID: pid}
		k.Name, _ = proc.Comm(pid) // "", if it can't be read
		k.Command = proc.Cmdline(pid, protocol.CommandMost)
		r.killed = append(r.killed, k)
	}
	r.killedTotal += len(pids)
}

// write describes the end in a report and the journal, if that is wanted. left are the members and
// containers that may be left.
func (r *record) write(why causes.Cause, sig unix.Signal, left []string) {
	if !r.server.isDescribed() {
		return
	}
	described := r.describe(why, sig, left)
	r.sentence = described.Sentence()
	described.Log()
	described.Write(r.server.Config.Report)
}

// describe fills in a report. A server whose main process was waited for has a status.
func (r *record) describe(why causes.Cause, sig unix.Signal, left []string) *report.Report {
	s := r.server
	described := report.New(s.Config, why)
	described.ClientEnded = linux.Ended(int(s.Page.FD.Client))
	described.Signal = report.SignalName(sig) // "" for another cause
	ended := unix.WaitStatus(s.Page.Status())
	status := ended.ExitStatus()
	switch {
	case ended.Signaled():
		described.ExitSignal = report.SignalName(ended.Signal())
	case s.Page.Exited():
		described.ExitStatus = &status
	}
	now := r.measure()
	if now.knowsCPU {
		cpu := now.cpu.Round(time.Millisecond).Seconds()
		described.CPUSeconds = &cpu
	}
	described.Figures = now.Figures
	described.Stopped = r.others
	described.StoppedTotal = r.othersTotal
	described.Killed = r.killed
	described.KilledTotal = r.killedTotal
	described.Stuck = left
	described.Notes = s.Config.Notes
	return described
}
