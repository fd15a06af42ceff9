// SPDX-License-Identifier: Apache-2.0

// Package launcher starts a server below a guard, or takes one over that its client has started. From then on
// this process is the server's brain.
package launcher

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
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
	// Foreign are the descriptors above 2 that the client passed on. The server gets
	// them, and no other process keeps them.
	Foreign []int
	NoFile  unix.Rlimit
	Hub     *loop.Hub // of a gateway's servers, or nil
}

// Run runs the server and returns when nothing of it is left. An error means that
// mcpscope itself failed: nothing was started, or everything was stopped.
func (s *Server) Run() (brain.Outcome, error) {
	freeze.ClearTag() // a server in a server has its own group and guard
	threads := startThreads()
	// it stores the command line of each process that writes to it: arguments may be secrets
	if systemd.JournalExists() {
		hideArguments(s.Argv[1:])
	}
	b, err := s.birth()
	if err != nil {
		return brain.Outcome{}, err
	}
	if err := b.start(threads); err != nil {
		b.abandon()
		return brain.Outcome{}, err
	}
	b.Live()
	return b.Outcome()
}

// startThreads has the runtime start the threads that it may need when a server has used up all processes,
// where it aborts the process: beside a goroutine that waits in a system call there is one for timers and one
// for goroutines that a garbage collection wakes. So here they all wait, each with a thread of its own.
func startThreads() (started *sync.WaitGroup) {
	const all = 3
	started = &sync.WaitGroup{}
	var inside sync.WaitGroup
	inside.Add(all)
	for range all {
		started.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			inside.Done()
			inside.Wait()
		})
	}
	return started
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

// birth is the start of a server.
type birth struct {
	*brain.Brain
	server    *Server
	unlimited []error // limits that could not be applied, with Limits.BestEffort
}

// birth has the configuration that a later brain needs, without the group.
func (s *Server) birth() (*birth, error) {
	c := protocol.NewConfig()
	c.Name, c.Argv, c.Policy, c.Started = s.Name, s.Argv, s.Policy, time.Now().UnixNano()
	c.Recipe = s.Recipe
	c.Origin = s.Origin
	c.Verbose, c.Replace, c.Report, c.Stderr = s.Verbose, s.Replace, s.Report, protocol.StderrInherit
	parent := cmp.Or(s.Client, os.Getppid())
	st, _ := proc.ReadStat(parent) // without a name, if it can't be read
	c.Client = protocol.ClientFacts{PID: parent, Start: st.StartTime, Name: cmp.Or(s.ClientName, st.Comm)}
	c.Path, c.Engine = s.Path, protocol.EngineOf(s.Argv)
	c.Launcher, _ = group.Identify(os.Getpid()) // no backend works without /proc
	if s.Guard > 0 {
		c.Guard, _ = group.Identify(s.Guard) // as far as it can be seen
	}
	if s.Hub != nil {
		return &birth{Brain: brain.New(c, s.Hub.Loop()), server: s}, nil
	}
	l, err := loop.New()
	if err != nil {
		return nil, err
	}
	return &birth{Brain: brain.New(c, l), server: s}, nil
}

// mainProcess is the server as the guard starts it.
func (b *birth) mainProcess() *guard.Server {
	s := b.server
	id := b.Config.Group.ID
	var mask unix.Sigset_t                              // signal n is bit n-1
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &mask) // it can't fail
	m := &guard.Server{
		Path: s.Path, Argv: container.Labelled(s.Argv, id, s.Limits),
		Env:    append(slices.Clip(s.Env), "MCPSCOPE_ID="+id),
		NoFile: s.NoFile, Locks: group.TagOf(id).Limit(), Mask: mask.Val[0],
	}
	if b.Terminal {
		m.Pgid = unix.Getpgrp()
	}
	return m
}

// start has the guard start the server in a group of its own.
func (b *birth) start(threads *sync.WaitGroup) (err error) {
	s := b.server
	b.Env, b.Terminal = s.Env, linux.OnTerminal()
	if b.Client, err = client.WatchParent(s.Policy.OnClientDeath); err != nil {
		return err
	}
	if err := b.Client.Add(b.Loop); err != nil {
		return err
	}
	if err := b.Open(s.Executable); err != nil {
		return err
	}
	// before there is a server to pass them on to, so that none is lost
	if err := b.Loop.Catch(linux.Caught...); err != nil {
		return err
	}
	if !group.InitReaps() {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // it can't fail (Linux 3.4)
	}
	if err := b.acquire(); err != nil {
		return err
	}
	b.Note(container.Uncontained(s.Argv))
	b.Group.Note(b.Config.Notes)
	if err := cmp.Or(b.Page.SetConfig(protocol.Encode(b.Config)), b.Begin()); err != nil {
		return err
	}
	// the guard exists, and would have inherited these actions where seccomp refuses clone3
	linux.ReapAll()
	if b.Terminal { // ^Z is the server's from now on
		linux.IgnoreJobControl()
	}
	threads.Wait()
	if errno := b.Guard.Go(b.Group.Directories()); errno != 0 {
		return fmt.Errorf("start the server: the guard: %w", errno)
	}
	b.leaveClient()
	// Before the guard's first byte the payload can be empty because there is no main process yet, and a stop
	// would end without it. A server may have stopped the guard.
	linux.AwaitEnd(b.Guard.Sock, unix.POLLIN, birthWithin)
	return nil
}

// birthWithin is the time that the guard has for the birth, on a busy machine.
const birthWithin = 5 * time.Second

// settle makes a group in a place, with its guard first: from then on the launcher's death leaves nothing.
func (b *birth) settle(p backend.Place) (err error) {
	b.Page.Leaf, b.Page.Parent = -1, -1
	if p.Above != nil {
		leaf, err := group.Leaf(p.Above) // where the guard is born
		if err != nil {
			return err
		}
		defer leaf.Close()
		b.Page.Leaf, b.Page.Parent = int32(leaf.FD()), int32(p.Above.FD())
	}
	if err := b.fork(p.Backend == protocol.Tree); err != nil {
		return fmt.Errorf("%w: %w", errGuard, err)
	}
	wanted := backend.Wanted{Config: b.Config, Guard: b.Guarded(), Names: b.Page.SetDirectories}
	if b.Group, err = p.Group(wanted); err != nil {
		b.dismiss()
	}
	return err
}

func (b *birth) fork(readable bool) (err error) {
	s := b.server
	var server *guard.Server
	if !b.Config.Taken {
		server = b.mainProcess()
		if s.Stderr == protocol.StderrJournal {
			name := protocol.DirectoryName(b.Config.Name, b.Config.Group.ID)
			if fd, err := systemd.JournalStream(name, systemd.Info); err == nil {
				defer unix.Close(fd)
				b.Config.Stderr, server.Stderr = protocol.StderrJournal, fd
			} else {
				b.Note("stderr is the client's: " + err.Error())
			}
		}
	}
	b.Guard, err = guard.Fork(b.Page, server, &guard.Options{
		Name: protocol.GroupPrefix + b.Config.Group.ID, Argv: protocol.SuperviseArgs(s.Name),
		Env: s.Env, Readable: readable,
	})
	return err
}

// dismiss ends a guard without a server, which removes what was made of a group.
func (b *birth) dismiss() {
	if b.Guard == nil {
		return
	}
	_ = unix.Close(b.Guard.Sock)
	linux.AwaitEnd(b.Guard.PIDFD, unix.POLLIN, protocol.ReactWithin)
	_ = unix.Close(b.Guard.PIDFD)
	b.Guard = nil
}

// abandon undoes a start that failed.
func (b *birth) abandon() {
	if b.Client != nil {
		b.Client.Close() // that it failed may be for lack of descriptors
	}
	if b.Group != nil {
		_ = b.Group.Remove() // the guard tries as well, and a sweep
	}
	b.dismiss()
}

// leaveClient closes the descriptors that are the server's own. Our stderr stays, for our own failures.
func (b *birth) leaveClient() {
	// after an error they stay open, which a server hardly notices
	null, _ := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	_, _ = unix.Dup3(null, 0, unix.O_CLOEXEC), unix.Dup3(null, 1, unix.O_CLOEXEC) // their numbers stay in use
	_ = unix.Close(null)
	for _, fd := range b.server.Foreign {
		if fd != b.server.Report {
			_ = unix.Close(fd)
		}
	}
}
