// SPDX-License-Identifier: Apache-2.0

//go:build linux

package brain

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

// inspect describes some members before they are killed.
func (b *Brain) inspect(members freeze.Target) {
	if !report.Wanted(b.Config.Report) && !b.Config.Verbose {
		return
	}
	pids, _ := members.Members() // a partial list is better than none
	for _, pid := range pids[:min(len(pids), report.KilledMost)] {
		k := report.Killed{PID: pid}
		k.Name, _ = proc.Comm(pid)
		k.Command, _ = proc.Cmdline(pid, protocol.CommandMost)
		b.killed = append(b.killed, k)
	}
	b.total += len(pids)
}

func (b *Brain) Note(text string) {
	if !slices.Contains(b.Notes, text) {
		b.Notes = append(b.Notes, text)
	}
}

// notesForPeople adds the members that were killed.
func (b *Brain) notesForPeople() []string {
	notes := slices.Clone(b.Notes)
	for _, k := range b.killed {
		notes = append(notes, "killed "+k.String())
	}
	if b.total > len(b.killed) {
		notes = append(notes, fmt.Sprintf("killed %d processes in all", b.total))
	}
	return notes
}

func (b *Brain) stuckForPeople() (all []string) {
	for _, left := range b.stuck[:min(len(b.stuck), report.KilledMost)] {
		all = append(all, group.DescribeStuck([]freeze.Stuck{left}))
	}
	if b.undone != "" {
		all = append(all, b.undone)
	}
	return all
}

func (b *Brain) subject() protocol.Subject {
	c := b.Config
	return protocol.Subject{ID: c.Group.ID, Name: c.Name, Client: c.Client, Backend: c.Group.Backend}
}

func (b *Brain) writeReport() {
	c := b.Config
	if !report.Wanted(c.Report) {
		return
	}
	r := report.New(c, b.life.Cause)
	if b.life.Cause == protocol.Signalled {
		r.Signal = unix.SignalName(b.life.Signal)
	}
	if b.Page.Exited {
		r.SetStatus(unix.WaitStatus(b.Page.Status))
	}
	r.Count(b.Group.Members(), b.Group.Figures())
	r.Killed, r.KilledTotal = b.killed, b.total
	r.Stuck, r.Notes = b.stuckForPeople(), b.Notes
	r.Log()
	r.Write(c.Report)
}
