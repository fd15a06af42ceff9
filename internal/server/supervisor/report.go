// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/lifecycle"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// wantsDetails: somebody wants to know of each member that had to be killed.
func (s *supervisor) wantsDetails() bool { return s.config.Report >= 0 || s.config.Verbose }

// inspect describes the members that are about to be killed, while they are frozen. It runs beside the
// supervisor's loop, so it changes nothing.
func (s *supervisor) inspect() lifecycle.Inspected {
	pids, _ := s.group.Members().Members() // a partial list is better than none
	most := report.InspectFew
	if s.wantsDetails() {
		most = report.InspectMost
	}
	var all []report.Killed
	for _, pid := range pids[:min(len(pids), most)] {
		all = append(all, s.describe(pid))
	}
	return lifecycle.Inspected{All: all, Total: len(pids)}
}

// addKilled adds what a ladder had to kill.
func (s *supervisor) addKilled(seen lifecycle.Inspected) {
	s.killed, s.killedTotal = append(s.killed, seen.All...), s.killedTotal+seen.Total
}

// describe describes one process. What can't be read is left out.
func (s *supervisor) describe(pid int) report.Killed {
	k := report.Killed{PID: pid}
	st, err := proc.ReadStat(pid)
	if err != nil {
		return k
	}
	k.Name = st.Comm
	if s.wantsDetails() {
		k.Command, _ = proc.Cmdline(pid, protocol.CommandMost)
	}
	fact := func(is bool, what string) {
		if is {
			k.Facts = append(k.Facts, what)
		}
	}
	session, _ := unix.Getsid(0)
	fact(st.Session != session, "new session")
	fact(pid != s.main && st.PPID == os.Getpid(), "re-parented")
	fact(st.State == 'T', "stopped")
	status, err := proc.ReadStatus(pid)
	if err == nil {
		const term = 1 << (unix.SIGTERM - 1)
		fact(status.TracerPid != 0, "traced")
		fact(status.SigIgn&term != 0, "SIGTERM ignored")
		fact(status.SigBlk&term != 0, "SIGTERM blocked")
	}
	fact(s.group.Elsewhere(pid), "other cgroup")
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		fact(report.OtherNamespace(pid, ns), "other "+ns+" namespace")
	}
	return k
}

func (s *supervisor) Note(text string) {
	if !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

// notesForPeople are the notes, and a few of those who had to be killed.
func (s *supervisor) notesForPeople() []string {
	notes := slices.Clone(s.notes)
	for _, k := range s.killed[:min(len(s.killed), report.LastWordMost)] {
		notes = append(notes, "killed "+k.String())
	}
	if total := max(s.killedTotal, len(s.killed)); total > report.LastWordMost {
		notes = append(notes, fmt.Sprintf("killed %d processes in all", total))
	}
	return notes
}

// report writes the line, if one was asked for, and tells the journal.
func (s *supervisor) report() {
	if !report.Wanted(s.config.Report) {
		return
	}
	r := report.New(s.group.Ident(), s.config.Name, s.config.Client, s.backend, s.config.Started, s.lifecycle.Cause)
	if s.lifecycle.Cause == protocol.Signalled {
		r.Signal = unix.SignalName(s.lifecycle.Signal)
	}
	if s.exited {
		r.SetStatus(s.status)
	}
	r.Count(s.group.Members(), s.group.Figures())
	r.Killed, r.KilledTotal, r.Stuck, r.Notes = s.killed, max(s.killedTotal, len(s.killed)), s.last().Stuck, s.notes
	r.Tell(s.notes[s.notesTold:])
	r.Write(s.config.Report)
}
