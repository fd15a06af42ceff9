// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
)

// inspect describes some of the members that are about to be killed, while they are frozen.
func (b *brain) inspect() {
	if !report.Wanted(b.config.Report) && !b.config.Verbose {
		return
	}
	pids, _ := b.group.Members().Members() // a partial list is better than none
	for _, pid := range pids[:min(len(pids), report.KilledMost)] {
		b.killed = append(b.killed, describe(pid))
	}
	b.total += len(pids)
}

// describe returns what can be read of a process.
func describe(pid int) report.Killed {
	k := report.Killed{PID: pid}
	k.Name, _ = proc.Comm(pid)
	k.Command, _ = proc.Cmdline(pid, protocol.CommandMost)
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
	for _, k := range b.killed {
		notes = append(notes, "killed "+k.String())
	}
	if total := max(b.total, len(b.killed)); total > len(b.killed) {
		notes = append(notes, fmt.Sprintf("killed %d processes in all", total))
	}
	return notes
}

func (b *brain) stuckForPeople() (all []string) {
	for _, left := range b.stuck[:min(len(b.stuck), report.KilledMost)] {
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

func (b *brain) writeReport() {
	c := b.config
	if !report.Wanted(c.Report) {
		return
	}
	r := report.New(c, b.life.Cause)
	if b.life.Cause == protocol.Signalled {
		r.Signal = unix.SignalName(b.life.Signal)
	}
	if b.page.Exited {
		r.SetStatus(unix.WaitStatus(b.page.Status))
	}
	r.Count(b.group.Members(), b.group.Figures())
	r.Killed, r.KilledTotal, r.Stuck, r.Notes = b.killed, max(b.total, len(b.killed)), b.stuckForPeople(), b.notes
	r.Log()
	r.Write(c.Report)
}
