// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// wantsDetails: somebody wants to know of each member that had to be killed.
func (b *brain) wantsDetails() bool { return b.config.Report >= 0 || b.config.Verbose }

// inspects: somebody wants to know of some.
func (b *brain) inspects() bool { return b.wantsDetails() || systemd.JournalExists() }

// inspect describes the members that are about to be killed, while they are frozen.
func (b *brain) inspect() {
	pids, _ := b.group.Members().Members() // a partial list is better than none
	most := report.InspectFew
	if b.wantsDetails() {
		most = report.InspectMost
	}
	for _, pid := range pids[:min(len(pids), most)] {
		b.killed = append(b.killed, b.describe(pid))
	}
	b.total += len(pids)
}

// describe describes one process. What can't be read is left out.
func (b *brain) describe(pid int) report.Killed {
	k := report.Killed{PID: pid}
	st, err := proc.ReadStat(pid)
	if err != nil {
		return k
	}
	k.Name = st.Comm
	if b.wantsDetails() {
		k.Command, _ = proc.Cmdline(pid, protocol.CommandMost)
	}
	fact := func(is bool, what string) {
		if is {
			k.Facts = append(k.Facts, what)
		}
	}
	fact(st.Session != b.config.Session, "new session")
	fact(pid != int(b.page.MainPID) && st.PPID == int(b.page.GuardPID), "re-parented")
	fact(st.State == 'T', "stopped")
	status, err := proc.ReadStatus(pid)
	if err == nil {
		const term = 1 << (unix.SIGTERM - 1)
		fact(status.TracerPid != 0, "traced")
		fact(status.SigIgn&term != 0, "SIGTERM ignored")
		fact(status.SigBlk&term != 0, "SIGTERM blocked")
	}
	fact(b.group.Elsewhere(pid), "other cgroup")
	for _, ns := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		fact(report.OtherNamespace(pid, ns), "other "+ns+" namespace")
	}
	return k
}

func (b *brain) note(text string) {
	if !slices.Contains(b.notes, text) {
		b.notes = append(b.notes, text)
	}
}

// notesForPeople are the notes, and a few of the members that had to be killed.
func (b *brain) notesForPeople() []string {
	notes := slices.Clone(b.notes)
	for _, k := range b.killed[:min(len(b.killed), report.LastWordMost)] {
		notes = append(notes, "killed "+k.String())
	}
	if total := max(b.total, len(b.killed)); total > report.LastWordMost {
		notes = append(notes, fmt.Sprintf("killed %d processes in all", total))
	}
	return notes
}

func (b *brain) stuckForPeople() (all []string) {
	for _, left := range b.stuck[:min(len(b.stuck), report.LastWordMost)] {
		all = append(all, group.DescribeStuck([]freeze.Stuck{left}))
	}
	if b.undone != "" {
		all = append(all, b.undone)
	}
	return all
}

func (b *brain) subject() protocol.Subject {
	return protocol.Subject{ID: b.config.Group.ID, Name: b.config.Name, Client: b.config.Client, Backend: b.config.Group.Backend}
}

// writeReport writes the line, if one was asked for, and tells the journal.
func (b *brain) writeReport() {
	c := b.config
	if !report.Wanted(c.Report) {
		return
	}
	r := report.New(c.Group.ID, c.Name, c.Client, c.Group.Backend, c.Started, b.life.Cause)
	if b.life.Cause == protocol.Signalled {
		r.Signal = unix.SignalName(b.life.Signal)
	}
	if b.page.Exited {
		r.SetStatus(unix.WaitStatus(b.page.Status))
	}
	r.Count(b.group.Members(), b.group.Figures())
	r.Killed, r.KilledTotal, r.Stuck, r.Notes = b.killed, max(b.total, len(b.killed)), b.stuckForPeople(), b.notes
	r.Tell(b.notes[min(b.notesTold, len(b.notes)):])
	r.Write(c.Report)
}
