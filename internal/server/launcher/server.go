// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launcher starts a server below a guard, or takes one over that its client has started. From then on
// this process is the server's brain.
package launcher

import (
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
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
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
	// Require refuses the backend tree, which is weaker than all others.
	Require bool
	// Weaker, if not nil, is called when the server gets the backend tree because a better one that this
	// host has does not work.
	Weaker func(error)
	// Replace retires older servers of this name and client process.
	Replace bool
	// Slice is where systemd is to put the scope.
	Slice string
	// Notes are the caller's own, for the report.
	Notes []string
	// Report is a descriptor for the report, or -1.
	Report int
	// Verbose asks for notes on members that had to be killed.
	Verbose bool
	// Stderr is where the server's goes. One that is taken has its own: see Taken.SetStderr.
	Stderr protocol.Stderr
	// Executable is mcpscope itself, for later brains.
	Executable string
	// Client is the pid of the client where it is not our parent; otherwise 0.
	Client int
	// ClientName is the client's name, where its process has another one.
	ClientName string
	// Foreign are the descriptors above 2 that the client passed on. The server gets
	// them, and no other process keeps them.
	Foreign []int
	NoFile  unix.Rlimit
}

// Outcome is how a server ended.
type Outcome = brain.Outcome

// Run runs the server and returns when nothing of it is left. An error means that
// mcpscope itself failed: nothing was started, or everything was stopped.
func (s *Server) Run() (Outcome, error) {
	freeze.ClearTag()     // a server in a server has its own group and guard
	runtime.GOMAXPROCS(1) // a launcher waits: it needs no thread for each processor
	startThreads()
	// it stores the command line of each process that writes to it: arguments may be secrets
	if systemd.JournalExists() {
		hideArguments(s.Argv[1:])
	}
	b, err := s.prepare()
	if err != nil {
		return Outcome{}, err
	}
	if err := b.start(); err != nil {
		b.abandon()
		return Outcome{}, err
	}
	b.Live()
	return b.Outcome()
}

// startThreads has the runtime start the threads that it may need when a server has used up all processes,
// where it aborts the process: beside a goroutine that waits in a system call there is one for timers and one
// for goroutines that a garbage collection wakes. A goroutine that is locked to its thread does not share it.
func startThreads() {
	var locked sync.WaitGroup
	start := make(chan struct{})
	for range 3 {
		locked.Add(1)
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread() // not ended with the goroutine
			locked.Done()
			<-start
		}()
	}
	locked.Wait()
	close(start)
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

// config is the configuration that a later brain needs, without the group.
func (s *Server) config() *protocol.Config {
	c := protocol.NewConfig()
	c.Name, c.Argv, c.Policy, c.Started = s.Name, s.Argv, s.Policy, time.Now().UnixNano()
	c.Verbose, c.Replace = s.Verbose, s.Replace
	c.Stderr, c.Report, c.Client = s.Stderr, s.Report, client.Describe(s.Client, s.ClientName)
	c.Path, c.Engine = s.Path, protocol.EngineOf(s.Argv)
	if self, err := group.Identify(os.Getpid()); err == nil {
		c.Launcher = self.String()
	}
	return c
}

// birth is the start of a server.
type birth struct {
	*brain.Brain
	server *Server
}

func (s *Server) birth() (*birth, error) {
	b, err := brain.New(s.config())
	return &birth{b, s}, err
}

// prepare makes everything that can fail before anything is started.
func (s *Server) prepare() (*birth, error) {
	b, err := s.birth()
	if err != nil {
		return nil, err
	}
	b.Terminal = linux.OnTerminal()
	if b.Client, err = client.WatchParent(s.Policy.OnClientDeath); err != nil {
		return nil, err
	}
	if err = b.Client.Add(b.Loop); err != nil {
		return nil, err
	}
	return b, b.Open(s.Executable)
}

// mainProcess is the server as the guard starts it.
func (b *birth) mainProcess() *guard.Server {
	s := b.server
	id := b.Config.Group.ID
	m := &guard.Server{
		Path: s.Path, Argv: container.Labelled(s.Argv, id, s.Limits),
		Env:    append(slices.Clip(s.Env), "MCPSCOPE_ID="+id),
		NoFile: s.NoFile, Locks: group.TagOf(id).Limit(), Mask: linux.Mask(),
	}
	if b.Terminal {
		m.Pgid = unix.Getpgrp()
	}
	return m
}
