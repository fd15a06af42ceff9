// SPDX-License-Identifier: Apache-2.0

// Package launcher starts a server as a child of this process, with a guard beside it, or takes one over that
// its client has started. The watcher of a gateway is the brain of those.
package launcher

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/client"
	"github.com/mcpscope/mcpscope/internal/server/container"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Server is one command to be run in a group of its own.
type Server struct {
	Name    string
	Path    string   // the file to execute, from Lookup
	Argv    []string // as the client gave it
	Env     []string // the client's, without our own variables
	Policy  protocol.Policy
	Limits  cgroup.Limits
	Backend protocol.Backend
	Require bool // refuse the backend tree, which is weaker than all others
	// Weaker, if not nil, is called when the server gets the backend tree because a better one that this
	// host has does not work.
	Weaker     func(error)
	Replace    bool            // retire older servers of this name, or recipe, and client process
	Recipe     uint64          // of a server of a gateway: see protocol.Facts
	Notes      []string        // the caller's own, for the report
	Report     int             // a descriptor, or -1
	Verbose    bool            // asks for notes on members that had to be killed
	Quiet      bool            // print nothing, not even failures
	Stderr     protocol.Stderr // one that is taken has its own: see Taken.SetStderr
	Executable string          // mcpscope itself, for later brains
	Client     int             // pid of the client where it is not our parent; otherwise 0
	Guard      int             // pid of that of a gateway, or 0
	ClientName string          // where its process has another one
	Origin     protocol.Origin
	// StrictLimits: the settings do not allow that a limit is missing. Below a gateway the server runs
	// without it, and its watcher reports that.
	StrictLimits bool
	// Unproven is for a program that a gateway has started and that only its name says to be a server. It
	// gets a group, but no limits, and nothing stops it, before Taken.Prove.
	Unproven bool
	NoFile   unix.Rlimit
	Signals  guard.ClientSignals
	Hub      *loop.Hub // of a gateway's servers, or nil
}

// Run starts the server, and becomes a launcher that needs no Go runtime: see guard.Launcher.HandOver. It
// returns only an error: mcpscope itself failed, and nothing was started, or everything was stopped.
func (s *Server) Run() error {
	runtime.LockOSThread() // the main process may get a signal at the death of the thread that has forked it
	// it stores the command line of each process that writes to it: arguments may be secrets
	journal := systemd.JournalExists()
	if journal {
		hideArguments(s.Argv[1:])
	}
	b := &start{birth: s.birth()}
	err := b.begin()
	if err == nil {
		p := b.Page
		p.Order.Awaits = b.Config.Engine != "" || s.Report >= 0 || s.Verbose
		p.Order.Reports = journal || b.Group.Managed || p.Order.Awaits
		p.Order.Verbose = s.Verbose
		payload, leaf := b.Group.Directories()
		err = b.launcher.HandOver(payload, leaf, shownArguments(), s.Env, s.Signals)
	}
	b.abandon()
	return err
}

// Report reports the end of a server whose launcher needs its main for that, and returns its configuration
// and how it ended.
func Report(e *guard.Ended) (c *protocol.Config, o brain.Outcome, err error) {
	handover := func(v string) bool { return strings.HasPrefix(v, guard.HandoverVariable) }
	env := slices.DeleteFunc(os.Environ(), handover)
	s, err := brain.LoadForReport(e.Page, e.Guard, e.Payload, env)
	if err != nil {
		return protocol.NewConfig(), o, err
	}
	if e.End == guard.NothingLeft || e.End == guard.NotEnded {
		s.EndPlainly()
	}
	if e.End != guard.MembersStuck { // otherwise a brain waits for them
		e.Dismiss(int64(protocol.ReactWithin))
	}
	o, err = s.Outcome()
	return s.Config, o, err
}

// shownArguments are those of this process, without hidden ones.
func shownArguments() (all []string) {
	for _, text := range os.Args {
		shown, _, _ := strings.Cut(text, "\x00")
		all = append(all, shown)
	}
	return all
}

// hideArguments overwrites args, the last ones of this process's command line: the strings of os.Args are
// that memory.
func hideArguments(args []string) {
	if first := len(os.Args) - len(args); first > 0 && slices.Equal(os.Args[first:], args) {
		for _, text := range os.Args[first:] {
			clear(unsafe.Slice(unsafe.StringData(text), len(text)))
		}
	}
}

// birth is the making of a group, for a server that this process starts or takes over.
type birth struct {
	brain.Server
	wanted    *Server
	client    *client.Side
	launcher  *guard.Preparation // nil for a server that is taken over
	unlimited []error            // limits that could not be applied, with Limits.BestEffort
}

// birth has the configuration that a brain needs, without the group.
func (s *Server) birth() *birth {
	c := protocol.NewConfig()
	c.Group.ID = protocol.NewID()
	c.Name = s.Name
	c.Argv = s.Argv
	c.Policy = s.Policy
	c.Started = time.Now().UnixNano()
	c.Recipe = s.Recipe
	c.Origin = s.Origin
	c.Verbose = s.Verbose
	c.Replace = s.Replace
	c.Report = s.Report
	c.Stderr = protocol.StderrInherit
	c.Quiet = s.Quiet
	parent := cmp.Or(s.Client, os.Getppid())
	st, _ := proc.ReadStat(parent) // without a name, if it can't be read
	c.Client = protocol.ClientFacts{PID: parent, Start: st.StartTime, Name: cmp.Or(s.ClientName, st.Comm)}
	c.Path = s.Path
	c.Engine = protocol.EngineOf(s.Argv)
	c.Launcher, _ = group.Identify(os.Getpid()) // no backend works without /proc
	if s.Guard > 0 {
		c.Guard, _ = group.Identify(s.Guard) // as far as it can be seen
	}
	return &birth{Server: brain.Server{Config: c, Env: s.Env}, wanted: s}
}

// start is a server that this process starts.
type start struct {
	*birth
	journal int // the server's stderr, or 0
}

// mainProcess is the server as the launcher starts it.
func (b *start) mainProcess() *guard.Server {
	s := b.wanted
	id := b.Config.Group.ID
	m := &guard.Server{
		Path: s.Path, Argv: container.Labelled(s.Argv, id, s.Limits),
		Env:    append(slices.Clip(s.Env), "MCPSCOPE_ID="+id),
		NoFile: s.NoFile, Locks: group.TagOf(id).Limit(), Signals: s.Signals,
		Stderr: b.stderr(), Death: linux.DeathSignal(),
	}
	if b.Page.Handover.Terminal { // ^Z is the server's
		m.Pgid = unix.Getpgrp()
	}
	return m
}

// stderr is a stream of the journal, if that is wanted; 0 is ours.
func (b *start) stderr() int {
	c := b.Config
	if b.wanted.Stderr != protocol.StderrJournal || c.Stderr == protocol.StderrJournal {
		return b.journal
	}
	fd, err := systemd.JournalStream(protocol.DirectoryName(c.Name, c.Group.ID), systemd.Info)
	if err != nil {
		b.Note("stderr is the client's: " + err.Error())
		return 0
	}
	c.Stderr = protocol.StderrJournal
	b.journal = fd
	return fd
}

// begin starts the server in a group of its own.
func (b *start) begin() (err error) {
	s := b.wanted
	if b.client, err = client.WatchParent(s.Policy.OnClientDeath); err != nil {
		return err
	}
	b.Config.Side = b.client.ClientSide
	if err := b.open(s.Executable); err != nil {
		return err
	}
	if b.launcher, err = guard.Prepare(b.Page, b.mainProcess()); err != nil {
		return err
	}
	if err := b.acquire(); err != nil {
		return err
	}
	b.Config.Foreign = b.Page.Order.Foreign
	b.Note(container.Uncontained(s.Argv))
	b.Group.Note(b.Config.Notes)
	if err := b.Page.SetConfig(protocol.Encode(b.Config)); err != nil {
		return err
	}
	b.Page.ByBrain.CallBrainAt = b.settleAt()
	b.Page.Order.Managed = b.Group.Managed
	return nil
}

// settleAt is when a brain settles the start, on the clock of the page.
func (b *start) settleAt() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it can't fail
	return now.Nano() + int64(brain.SettleAfter)
}

// open makes the page. executable is the program of brains.
func (b *birth) open(executable string) error {
	var errno unix.Errno
	if b.Page, errno = page.New(); errno != 0 {
		return fmt.Errorf("make the page: %w", errno)
	}
	program, err := unix.Open(executable, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", executable, err)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("open pidfd: %w", err)
	}
	p := b.Page
	side := b.client
	p.Handover.Terminal = linux.OnTerminal()
	p.FD.Program = int32(program)
	p.FD.Launcher = int32(self)
	p.FD.Keep = int32(b.Config.Report)
	p.Order.EOFGrace = int64(b.Config.Policy.EOFGrace)
	p.Order.TermGrace = int64(b.Config.Policy.TermGrace)
	p.Order.Replaces = b.Config.Replace
	p.FD.Stdin = int32(side.Stdin)
	p.FD.Stdout = int32(side.Stdout)
	p.FD.Input = int32(side.Input)
	p.FD.Room = [2]int32{int32(side.Room[0]), int32(side.Room[1])}
	p.FD.Client = int32(side.PIDFD)
	return nil
}

// makeGroup makes a group in a place, with its guard first: from then on the launcher's death leaves nothing.
func (b *birth) makeGroup(p backend.Place) (err error) {
	if err := b.openDirectories(p.Above); err != nil {
		return err
	}
	if b.launcher == nil { // otherwise they are for the next guards, too
		defer b.closeDirectories()
	}
	b.Config.Position = p.Path
	if err := b.forkGuard(p.Backend == protocol.Tree); err != nil {
		return fmt.Errorf("%w: %w", errGuard, err)
	}
	wanted := backend.Wanted{
		Config: b.Config, Names: b.Page.SetDirectories,
		Launcher: freeze.Root{PID: os.Getpid(), PIDFD: int(b.Page.FD.Launcher)},
		Guard:    freeze.Root{PID: int(b.Page.ByGuard.GuardPID), PIDFD: b.Guard.PIDFD},
	}
	if b.launcher != nil {
		wanted.Prefork = b.prefork
	}
	if b.Group, err = p.Group(wanted); err != nil {
		b.dismiss()
	}
	return err
}

// openDirectories opens those that guards need: their cgroup, and the parent of all groups.
func (b *birth) openDirectories(above *cgroup.Group) error {
	b.Page.FD.Leaf = -1
	b.Page.FD.Parent = -1
	if above == nil {
		return nil
	}
	leaf, err := group.Leaf(above)
	if err != nil {
		return err
	}
	parent, err := unix.FcntlInt(uintptr(above.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_ = leaf.Close() // a directory
		return fmt.Errorf("open %s once more: %w", above.Path(), err)
	}
	b.Page.FD.Leaf = int32(leaf.FD())
	b.Page.FD.Parent = int32(parent)
	return nil
}

func (b *birth) closeDirectories() {
	_ = unix.Close(int(b.Page.FD.Leaf)) // a directory, or -1
	_ = unix.Close(int(b.Page.FD.Parent))
}

// prefork starts the main process, which waits for its group.
func (b *birth) prefork() (pid int, err error) {
	pid, errno := b.launcher.Prefork(-1)
	if errno != 0 {
		return 0, fmt.Errorf("fork the server: %w", errno)
	}
	return pid, nil
}

func (b *birth) forkGuard(readable bool) (err error) {
	o := &guard.Options{
		Name: protocol.GuardPrefix + b.Config.Group.ID, Argv: protocol.BrainArgs(b.Config.Group.ID),
		Env: b.Env, Hide: guard.CommandLine(), Readable: readable, Near: !group.InitReaps(),
	}
	if b.launcher != nil {
		b.Guard, err = b.launcher.ForkGuard(o)
	} else {
		b.Guard, err = guard.Fork(b.Page, o)
	}
	return err
}

// dismiss ends a guard without a server, which removes what was made of a group.
func (b *birth) dismiss() {
	if b.Guard == nil {
		return
	}
	if b.launcher != nil {
		b.launcher.Abandon()
		b.closeDirectories()
	} else {
		_ = unix.Close(b.Guard.Sock)
		linux.AwaitEnd(b.Guard.PIDFD, unix.POLLIN, protocol.ReactWithin)
		_ = unix.Close(b.Guard.PIDFD)
	}
	b.Guard = nil
}

// abandon undoes a start that failed.
func (b *birth) abandon() {
	if b.client != nil {
		b.client.Close() // that it failed may be for lack of descriptors
	}
	if b.Group != nil {
		_ = b.Group.Remove() // the guard tries as well, and a sweep
	}
	b.dismiss()
}
