// SPDX-License-Identifier: Apache-2.0

package launcher

import (
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Run starts the server, and becomes a launcher that needs no Go runtime: see guard.Preparation.HandOver. It
// returns only an error: mcpscope itself failed, and nothing was started, or everything was stopped.
func (s *Server) Run() error {
	runtime.LockOSThread() // the main process may get a signal at the death of the thread that has forked it
	// it stores the command line of each process that writes to it: arguments may be secrets
	hasJournal := systemd.JournalExists()
	if hasJournal {
		HideArguments(s.Main.Argv[1:])
	}
	b := &ownStart{making: newMaking(s)}
	err := b.begin()
	if err == nil {
		err = b.handOver(hasJournal)
	}
	b.making.abandon()
	return err
}

// Report reports the end of a server whose launcher needs its main for that, and returns its configuration
// and how it ended.
func Report(e *guard.Ended) (*protocol.Config, brain.Outcome, error) {
	isHandover := func(v string) bool { return strings.HasPrefix(v, guard.HandoverVariable) }
	env := slices.DeleteFunc(os.Environ(), isHandover)
	s, err := brain.LoadServer(e.Page, e.Guard, e.Payload, env)
	if err != nil {
		return protocol.NewConfig(), brain.Outcome{}, err
	}
	if e.End == guard.NothingLeft || e.End == guard.NotEnded {
		s.EndInLauncher()
	}
	if e.End != guard.MembersStuck { // otherwise a brain waits for them
		e.Dismiss(int64(policy.ReactWithin))
	}
	o, err := s.Outcome()
	return s.Config, o, err
}

// shownArguments returns the arguments of this process, in which hidden ones are empty.
func shownArguments() []string {
	var arguments []string
	for _, text := range os.Args {
		shown, _, _ := strings.Cut(text, "\x00")
		arguments = append(arguments, shown)
	}
	return arguments
}

// HideArguments overwrites args, the last ones of this process's command line: the strings of os.Args are
// that memory. It does nothing if they are hidden already.
func HideArguments(args []string) {
	first := len(os.Args) - len(args)
	if first <= 0 || !slices.Equal(os.Args[first:], args) {
		return
	}
	for _, text := range os.Args[first:] {
		clear(unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}

// ownStart is the start of a server as a child of this process.
type ownStart struct {
	making  *making
	journal int // the server's stderr, or 0
}

// begin makes the group, with all that a brain needs. The main process starts when the server is handed over.
func (b *ownStart) begin() error {
	m := b.making
	in, err := client.WatchParent(m.wanted.Policy)
	m.client = in
	if err != nil {
		return err
	}
	c := m.server.Config
	c.Side = in.ClientSide
	if err := m.openPage(); err != nil {
		return err
	}
	m.prepared, err = guard.Prepare(m.server.Page, b.mainProcess())
	if err != nil {
		return err
	}
	if err := m.acquire(); err != nil {
		return err
	}
	p := m.server.Page
	c.Foreign = p.Order.Foreign
	m.server.Note(container.Uncontained(m.wanted.Main.Argv))
	m.server.Group.Note(c.Notes)
	if err := p.SetConfig(protocol.Encode(c)); err != nil {
		return err
	}
	p.ByBrain.CallBrainAt = settleAt()
	p.Order.Managed = m.server.Group.Managed
	return nil
}

// handOver starts the main process. It returns only an error.
func (b *ownStart) handOver(hasJournal bool) error {
	m := b.making
	s := m.wanted
	order := &m.server.Page.Order
	switch {
	case m.server.Config.Engine != "", s.Report >= 0, s.Messages.Verbose:
		order.PlainEnd = page.BrainEndsFirst
	case hasJournal, m.server.Group.Managed:
		order.PlainEnd = page.BrainEndsLater
	default:
		order.PlainEnd = page.LauncherEnds
	}
	order.Verbose = s.Messages.Verbose
	order.ContainersFirst = container.EndsFirst(m.server.Config.Engine)
	payload, leaf := m.server.Group.Directories()
	return m.prepared.HandOver(payload, leaf, shownArguments(), s.Env, s.Main.Signals)
}

// mainProcess is the main process as the guard package starts it.
func (b *ownStart) mainProcess() *guard.MainProcess {
	s := b.making.wanted
	id := b.making.server.Config.Group.ID
	main := &guard.MainProcess{
		Path:    s.Main.Path,
		Argv:    container.Labelled(s.Main.Argv, id, s.Limits),
		Env:     append(slices.Clip(s.Env), "MCPSCOPE_ID="+id),
		NoFile:  s.Main.NoFile,
		Locks:   group.TagOf(id).Limit(),
		Signals: s.Main.Signals,
		Stderr:  b.stderr(),
	}
	if b.making.server.Page.Handover.Terminal { // ^Z is the server's
		main.Pgid = unix.Getpgrp()
	}
	return main
}

// stderr is a stream of the journal, if that is wanted; 0 is ours.
func (b *ownStart) stderr() int {
	m := b.making
	c := m.server.Config
	if m.wanted.Stderr != protocol.StderrJournal || c.Stderr == protocol.StderrJournal {
		return b.journal
	}
	fd, err := systemd.JournalStream(names.DirectoryName(c.Name, c.Group.ID), systemd.Info)
	if err != nil {
		m.server.Note("stderr is the client's: " + err.Error())
		return 0
	}
	c.Stderr = protocol.StderrJournal
	b.journal = fd
	return fd
}

// settleAt is when a brain settles the start, on the clock of the page.
func settleAt() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it can't fail
	return now.Nano() + int64(policy.SettleAfter)
}
