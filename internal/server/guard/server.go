// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// Server describes the main process.
type Server struct {
	Path      string
	Argv, Env []string
	Pgid      int          // process group to join; 0 makes a new one
	NoFile    *unix.Rlimit // RLIMIT_NOFILE; nil: the launcher's
	Locks     *unix.Rlimit // RLIMIT_LOCKS, the tag; nil: the launcher's
	Mask      uint64       // blocked signals: signal n is bit n-1. Ignored signals stay ignored
	Shell     bool         // execute a file without "#!" by /bin/sh, as execvp(3)
}

// Options are those of Fork.
type Options struct {
	Name string   // the guard's comm, at most 15 bytes
	Argv []string // of a later brain; the numbers of the page's file and of its socket follow
	Env  []string // of a later brain
	// Readable leaves the page to other processes of this user: a tree has nothing else that could be listed.
	Readable bool
	// Gate is for the guard of a gateway.
	Gate Gate
}

// Fork starts the guard, before there is a group: from then on the launcher's death leaves nothing. The
// server is prepared here and starts by Go. Without one (nil) the main process is not the guard's child. Fork
// makes the calling process undumpable before there is a server that could open the page.
func Fork(on *page.Page, s *Server, o *Options) (*page.Guard, error) {
	if o.Readable {
		defer unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // the guard's copy of this process stays as it is
	} else if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("refuse to be traced: %w", err)
	}
	f, err := openOwn()
	defer f.close()
	var p *process
	if err == nil {
		p, err = newProcess(on, f, s, o)
	}
	if err == nil {
		defer p.unmap()
		leaveOut()
		if errno := forkBetween(p); errno != 0 {
			err = fmt.Errorf("fork the guard: %w", errno)
		}
	}
	if err != nil {
		_ = unix.Close(int(f.brainEnd))
		return nil, err
	}
	on.GuardPID = p.pid
	return page.NewGuard(on, int(f.brainEnd), int(p.pidfd)), nil
}

// prepare writes the server's strings to the arena.
func (s *Server) prepare(rest *arena, shellArgv []string) mainProcess {
	m := mainProcess{wanted: true, pgid: uintptr(s.Pgid), mask: s.Mask}
	m.argv, m.env, m.path = rest.list(s.Argv), rest.list(s.Env), rest.string(s.Path)
	if s.Shell {
		m.shellArgv = rest.list(shellArgv)
		m.shell = rest.string(shellArgv[0])
	}
	if s.NoFile != nil {
		m.nofile, m.limitsFiles = *s.NoFile, true
	}
	if s.Locks != nil {
		m.locks, m.limitsLocks = *s.Locks, true
	}
	return m
}
