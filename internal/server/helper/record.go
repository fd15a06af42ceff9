// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"bytes"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/causes"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// record collects what the report says of the end.
type record struct {
	server   *Server
	last     readings
	sentence string // about the end; "" if there is no report, and without -v
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
	figures := r.server.Group.Limits().Figures() // zero, if it was removed
	cpu, err := r.server.Group.Members().CPU()   // no error: the group was there when the figures were read
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
	if hasLimit && r.server.Group.Limits().SessionKills() > r.last.SessionKills {
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

// cause is why the server has ended, and the signal if it was one.
func (r *record) cause() (causes.Cause, unix.Signal) {
	p := r.server.Page
	number := p.ByGuard.Stop.Cause
	if number == 0 { // it needed no stop
		number = p.FirstCause()
	}
	switch why := causes.Of(uint32(number)); {
	case why == causes.Signalled:
		return why, unix.Signal(p.ByLauncher.Signals[0].Number)
	case why == causes.MainExited && r.killedForMemory():
		return causes.MemoryExhausted, 0
	default:
		return why, 0
	}
}

// write describes the end in a report and the journal, if that is wanted. left are the members and
// containers that may be left.
func (r *record) write(left []string) {
	if !r.server.isDescribed() {
		return
	}
	described := r.describe(left)
	r.sentence = described.Sentence()
	described.Log()
	described.Write(r.server.Config.Output.Report)
}

// describe fills in a report. A server whose main process was waited for has a status.
func (r *record) describe(left []string) *report.Report {
	s := r.server
	why, sig := r.cause()
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
	stopped := &s.Page.Found.Stopped
	described.StoppedTotal = int(stopped.Total)
	for _, m := range listed(stopped) {
		described.Stopped = append(described.Stopped, nameOf(&m))
	}
	killed := &s.Page.Found.Killed
	described.KilledTotal = int(killed.Total)
	for _, m := range listed(killed) {
		described.Killed = append(described.Killed, report.Killed{PID: int(m.PID), Name: nameOf(&m)})
	}
	described.Stuck = left
	described.Kept = s.kept()
	described.InUse = s.inUse()
	described.Notes = s.Config.Output.Notes
	return described
}

// kept are the daemons that outlive the server.
func (s *Server) kept() (all []report.Kept) {
	if !s.Page.ByHelper.Daemons.HasKept {
		return nil
	}
	parent, _ := s.Group.Beside()
	if parent == nil { // it was removed with the groups in it
		return nil
	}
	defer parent.Close()
	isOurs := func(k *group.KeptGroup) bool {
		return k.From == s.Config.Group.ID && group.Populated(k.Dir)
	}
	for _, k := range group.OpenAllKept(parent, isOurs) {
		all = append(all, report.Kept{ID: names.IDOf(path.Base(k.Dir.Path())), Name: k.Name})
		k.Close()
	}
	return all
}

// listed are the members for which there was room on the page.
func listed(all *page.Members) []page.Member { return all.List[:min(all.Total, page.MembersMost)] }

func nameOf(m *page.Member) string {
	name, _, _ := bytes.Cut(m.Name[:], []byte{0})
	return string(name)
}

// list writes some processes to the page, as a guard does; but for one.
func list(to *page.Members, pids []int, except int) {
	for _, pid := range pids {
		if pid == except {
			continue
		}
		n := to.Total
		to.Total++
		if n >= page.MembersMost {
			continue
		}
		m := &to.List[n]
		*m = page.Member{PID: int32(pid)}
		name, _ := proc.Comm(pid) // "", if it has exited meanwhile
		copy(m.Name[:len(m.Name)-1], name)
	}
}
