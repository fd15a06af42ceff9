// SPDX-License-Identifier: Apache-2.0

package brain

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// Server is a server as its launcher and its brains have it.
type Server struct {
	Config *protocol.Config
	Page   *page.Page
	Guard  *page.Guard         // nil before it is forked
	Group  *group.ControlGroup // nil before it is made
	Env    []string            // the server's, for its container engine

	undone   string // containers that may be left
	recorded bool   // others and othersTotal are
	// others are the names of members beside the main process at the beginning of the stop.
	others      []string
	othersTotal int
	killed      []report.Killed
	killedTotal int    // members that had to be killed
	sentence    string // about the end; "" if there is no report, and without -v
	stuck       []freeze.Stuck
	last        readings
	swept       *sweep.Begun // nil, unless nested servers may have been left
}

// Outcome is how a server ended.
type Outcome struct {
	// Status is the main process's, from wait(2); Known is false where it could not be waited for.
	Status unix.WaitStatus
	Known  bool
	Notes  string   // lines for people
	Stuck  []string // members that could not be killed
	// Reported: the report was written.
	Reported bool
}

// Outcome is for the launcher.
func (s *Server) Outcome() (o Outcome, err error) {
	p := s.Page
	isNewline := func(r rune) bool { return r == '\n' }
	o = Outcome{
		Status: unix.WaitStatus(p.Status()), Known: p.Exited(), Notes: textIn(p.ByBrain.EndNotes[:]),
		Stuck:    strings.FieldsFunc(textIn(p.ByBrain.Left[:]), isNewline),
		Reported: p.ByLauncher.FailedStep == page.StepNone,
	}
	switch p.ByLauncher.FailedStep {
	case page.StepNone:
		return o, nil
	case page.StepExec:
		return o, &protocol.CommandError{Command: s.Config.Path, Errno: unix.Errno(p.ByLauncher.Errno)}
	}
	return o, fmt.Errorf("start the server: %v: %w", p.ByLauncher.FailedStep, unix.Errno(p.ByLauncher.Errno))
}

// textIn and setText are how the page has lines for people.
func textIn(text []byte) string {
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text)
}

// setText leaves out the lines for which there is no room.
func setText(text []byte, prefix string, lines []string) {
	clear(text)
	n := 0
	for _, line := range lines {
		line = prefix + protocol.Printable(strings.ReplaceAll(line, "\n", ", ")) + "\n"
		if n+len(line) >= len(text) { // it ends with 0
			return
		}
		n += copy(text[n:], line)
	}
}

// EndPlainly is for a launcher of whose server nothing is left: it reports the end and removes the group.
func (s *Server) EndPlainly() {
	s.noteGuards()
	if s.Page.ByLauncher.FailedStep == page.StepNone {
		if !s.Page.ByBrain.Settled {
			s.logStart()
		}
		s.endContainers(s.Config.Policy.TermGrace)
		s.writeReport(s.causeSeen())
	}
	if !s.Page.ByBrain.Settled {
		sweep.BeginSweep(s.Group.Beside()).Await()
	}
	s.publishEnd()
	_ = s.Group.Remove() // a sweep removes what can't be removed now
}

func (s *Server) logStart() {
	if systemd.JournalExists() {
		report.LogStart(s.Config)
	}
}

// causeSeen is the cause of a stop that needed no brain: the first event.
func (s *Server) causeSeen() (protocol.Cause, unix.Signal) {
	p := s.Page
	if p.ByBrain.Cause != 0 {
		return causeOn(p)
	}
	cause := protocol.MainExited
	first := int64(0)
	sooner := func(c protocol.Cause, at int64) {
		if at != 0 && (first == 0 || at < first) {
			cause = c
			first = at
		}
	}
	sooner(protocol.StdinClosed, p.ByGuard.Happened[page.StdinClosed])
	sooner(protocol.StdoutClosed, p.ByGuard.Happened[page.StdoutClosed])
	sooner(protocol.ClientDied, p.ByGuard.Happened[page.ClientDied])
	sooner(protocol.StopRequested, p.ByGuard.Happened[page.StopRequested])
	if p.ByLauncher.SignalsGot > 0 {
		sooner(protocol.Signalled, p.ByLauncher.Signals[0].At)
	}
	switch {
	case cause == protocol.Signalled:
		return cause, unix.Signal(p.ByLauncher.Signals[0].Number)
	case cause == protocol.MainExited && s.killedForMemory():
		return protocol.MemoryExhausted, 0
	}
	return cause, 0
}

// killedForMemory: the sender of a SIGKILL is unknown; but a kernel that kills whole groups has killed the
// main process. Of a server that its client has started only the client has the status.
func (s *Server) killedForMemory() bool {
	killed := s.Config.Taken || unix.WaitStatus(s.Page.Status()).Signal() == unix.SIGKILL
	return killed && s.measure().Exhausted()
}

// readings are figures that a manager removes with the group, as soon as that is empty: a server that its
// client has started has no guard in its scope. So they are read before, too.
type readings struct {
	protocol.Figures
	cpu time.Duration
}

// measureEarly is for the steps of a stop. The guard of any other server holds the scope until the end.
func (s *Server) measureEarly() {
	if s.Config.Taken {
		s.measure()
	}
}

func (s *Server) measure() readings {
	cpu, err := s.Group.Members().CPU()
	isRemoved := err != nil || cpu < s.last.cpu
	if !isRemoved {
		s.last = readings{s.Group.Figures(), cpu}
	}
	return s.last
}

// causeOn reads the cause that a brain has written to the page.
func causeOn(p *page.Page) (protocol.Cause, unix.Signal) {
	return protocol.CauseOf(p.ByBrain.Cause & 0xffff), unix.Signal(p.ByBrain.Cause >> 16)
}

// publishEnd has the launcher see what a person should know.
func (s *Server) publishEnd() {
	notes := slices.Clone(s.Config.Notes)
	if s.sentence != "" {
		notes = append(notes, s.sentence)
	}
	setText(s.Page.ByBrain.EndNotes[:], "mcpscope: note: ", notes)
	setText(s.Page.ByBrain.Left[:], "", s.stuckForPeople())
}

// endContainers stops what an engine runs for the server. A server that its client has started has no label.
func (s *Server) endContainers(grace time.Duration) {
	c := s.Config
	if c.Engine == "" || c.Taken {
		return
	}
	status := unix.WaitStatus(s.Page.Status()).ExitStatus()
	switch err := container.End(c.Group.ID, c.Argv, s.Env, grace); {
	case err == nil:
		s.undone = ""
	// of an engine that could not start a container, and of a shell that could not start the engine
	case s.Page.Exited() && status >= 125 && status <= 127:
		s.Note(err.Error())
	default:
		s.undone = err.Error()
	}
}

// endLeftOvers kills the members that left the group. They descend from the launcher, a subreaper, while that
// lives. Otherwise they carry the tag; to search for it reads all processes of the host, 1 ms for 100 of
// them.
func (s *Server) endLeftOvers() {
	below := s.descendants(0)
	alone := s.Config.Taken || s.Page.ByLauncher.Returned
	if below.Root != nil {
		alone = alone || s.Page.ByLauncher.Childless || below.RootAlone()
	}
	if !alone {
		s.killAll(below, elsewhere)
		s.swept = sweep.BeginSweep(s.Group.Beside()) // guards of nested servers may be among them
		s.swept.AwaitDeaths()
	}
	if !alone || s.Config.Taken {
		s.killAll(s.Group.Tagged(), elsewhere)
	}
}

const elsewhere = "members in other cgroups could not be looked for: "

// descendants are those of the launcher, without its guard. A dead launcher does not count, also if a tracer
// keeps it from being reaped.
func (s *Server) descendants(tag freeze.Tag) *freeze.Tree {
	root := freeze.Root{PID: s.Config.Launcher.PID, PIDFD: int(s.Page.FD.Launcher)}
	below := group.Below(root, tag, int(s.Page.ByGuard.GuardPID))
	if s.Page.Order.Foreign {
		group.SpareForeign(below, group.TagOf(s.Config.Group.ID), int(s.Page.ByLauncher.MainPID))
	}
	if !s.launcherLives() {
		below.Root = nil
	}
	return below
}

func (s *Server) launcherLives() bool {
	return s.Page.ByGuard.Happened[page.LauncherDied] == 0 && !linux.Ended(int(s.Page.FD.Launcher))
}

// recordOthers remembers, once, what else is there when a stop begins.
func (s *Server) recordOthers() {
	if s.recorded || !report.Wanted(s.Config.Report) && !s.Config.Verbose {
		return
	}
	s.recorded = true
	main := int(s.Page.ByLauncher.MainPID)
	if s.Config.Taken {
		main = s.Config.Main.PID
	}
	pids, _ := s.Group.Members().Members() // a partial list is better than none
	pids = slices.DeleteFunc(pids, func(pid int) bool { return pid == main })
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		name, err := proc.Comm(pid)
		if err == nil { // it has not exited meanwhile
			s.others = append(s.others, name)
		}
	}
	s.othersTotal = len(pids)
}

// killAll kills members, and those that are re-parented to the launcher by that. failed begins the note of an
// error.
func (s *Server) killAll(members freeze.Target, failed string) {
	frozen := func() {
		s.measureEarly()
		s.takeOutLauncher(members)
		s.inspect(members)
	}
	left, err := freeze.Stop{Target: members, Frozen: frozen}.Run()
	s.stuck = freeze.AddStuck(s.stuck, left)
	if err != nil {
		s.Note(failed + protocol.OneLine(err))
	}
}

// takeOutLauncher moves a launcher that a member has pulled into the group out of it: it has to return after
// the last member is dead, with the server's status. No other process can have its pid while it lives.
func (s *Server) takeOutLauncher(members freeze.Target) {
	launcher := s.Config.Launcher.PID
	pids, _ := members.Members() // none is taken out without a list
	if slices.Contains(pids, launcher) && s.launcherLives() {
		if err := s.Group.TakeOut(launcher); err != nil {
			s.Note("the launcher is killed with the server, which has moved it: " + protocol.OneLine(err))
		}
	}
}

// inspect describes some members before they are killed.
func (s *Server) inspect(members freeze.Target) {
	if !report.Wanted(s.Config.Report) && !s.Config.Verbose {
		return
	}
	pids, _ := members.Members() // a partial list is better than none
	for _, pid := range pids[:min(len(pids), report.NamedMost)] {
		k := report.Killed{PID: pid}
		k.Name, _ = proc.Comm(pid)
		k.Command = proc.Cmdline(pid, protocol.CommandMost)
		s.killed = append(s.killed, k)
	}
	s.killedTotal += len(pids)
}

// Note adds a remark for people.
func (s *Server) Note(text string) {
	if c := s.Config; text != "" && !slices.Contains(c.Notes, text) {
		c.Notes = append(c.Notes, text)
	}
}

// noteGuards has people see that guards were killed.
func (s *Server) noteGuards() {
	if n := s.Page.ByLauncher.Guards; n > 0 {
		s.Note(fmt.Sprintf("guards that were killed, and have been replaced: %d", n))
	}
}

func (s *Server) stuckForPeople() (all []string) {
	for _, left := range s.stuck[:min(len(s.stuck), report.NamedMost)] {
		all = append(all, left.Text)
	}
	if s.undone != "" {
		all = append(all, s.undone)
	}
	return all
}

// describeEnd fills in a report. A server whose main process was waited for has a status.
func (s *Server) describeEnd(why protocol.Cause, sig unix.Signal) *report.Report {
	c := s.Config
	r := report.New(c, why)
	r.Signal = report.SignalName(sig) // "" for another cause
	if ws := unix.WaitStatus(s.Page.Status()); ws.Signaled() {
		r.ExitSignal = report.SignalName(ws.Signal())
	} else if status := ws.ExitStatus(); s.Page.Exited() {
		r.ExitStatus = &status
	}
	now := s.measure()
	cpu := now.cpu.Round(time.Millisecond).Seconds()
	r.CPUSeconds = &cpu
	r.Figures = now.Figures
	r.Stopped = s.others
	r.StoppedTotal = s.othersTotal
	r.Killed = s.killed
	r.KilledTotal = s.killedTotal
	r.Stuck = s.stuckForPeople()
	r.Notes = c.Notes
	return r
}

func (s *Server) writeReport(why protocol.Cause, sig unix.Signal) {
	c := s.Config
	if !report.Wanted(c.Report) && !c.Verbose {
		return
	}
	r := s.describeEnd(why, sig)
	s.sentence = r.Sentence()
	r.Log()
	r.Write(c.Report)
}
