// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package client is the client's side of a server: whether the client lives, and whether it holds its ends
// of stdin and stdout. It reports, and decides nothing.
package client

import (
	"cmp"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/loop"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Side is the client's side of a server, in descriptors that can be passed to a brain.
type Side struct {
	Stdin    *Watch
	Input    *Watch // what is unread
	Stdout   *Watch
	Room     [2]*Watch     // in stdout and stderr
	File     protocol.File // stdin
	Where    string        // the cgroup that the client has started the launcher in
	Tag      freeze.Tag    // of the payload's processes
	Conveyed bool          // stdin is a pipe or socket, so it has another end
	Socket   bool          // stdin is a socket
	PIDFD    int           // the client, or -1
	Main     int           // pidfd of the main process, or -1
	Sure     bool          // it is the client that is known, and not a mere spawner
	loop     *loop.Loop    // where stdin and stdout are waited for
}

// WatchParent watches our descriptors 0 and 1, and our parent.
func WatchParent(onDeath protocol.ClientDeath) (*Side, error) {
	in := &Side{PIDFD: -1, Main: -1}
	in.Where, _ = proc.ReadCgroup(0) // none, without cgroup2
	err := in.watch(0, 1, 2)
	if err == nil && (in.Conveyed || onDeath == protocol.StopOnClientDeath) {
		in.PIDFD = openClient()
	}
	return in, err
}

// watch registers the descriptors that a server has as 0, 1 and 2; -1 for none.
func (in *Side) watch(stdin, stdout, stderr int) (err error) {
	add := func(to **Watch, fd int, events uint32) {
		if err == nil {
			*to, err = newWatch(fd, events)
		}
	}
	add(&in.Stdin, stdin, hangUp)
	file, kind := identifyFile(stdin)
	in.Socket = kind == unix.S_IFSOCK
	if in.Conveyed = in.Socket || kind == unix.S_IFIFO; in.Conveyed {
		in.File = file
		add(&in.Input, stdin, input)
	}
	add(&in.Stdout, stdout, failure)
	add(&in.Room[0], stdout, room)
	add(&in.Room[1], stderr, room)
	return err
}

func (in *Side) Close() {
	in.CloseWatches()
	for _, fd := range []int{in.PIDFD, in.Main} {
		if fd >= 0 {
			_ = unix.Close(fd) // a pidfd has nothing to flush
		}
	}
	*in = Side{PIDFD: -1, Main: -1}
}

// CloseWatches closes the sets that another process has inherited.
func (in *Side) CloseWatches() {
	for _, w := range []**Watch{&in.Stdin, &in.Input, &in.Stdout, &in.Room[0], &in.Room[1]} {
		(*w).Close()
		*w = nil
	}
}

// openClient returns a pidfd of our parent, or -1 if that is init: then init is not the client, or its end
// stops everything anyway.
func openClient() int {
	parent := os.Getppid()
	if parent <= 1 {
		return -1
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return -1 // seccomp: only stdin reports the end of the client
	}
	if os.Getppid() != parent {
		_ = unix.Close(fd) // our parent exited meanwhile, and the pid may be reused
		return -1
	}
	return fd
}

// HungUp reports whether the client has closed its end of stdin.
func (in *Side) HungUp() bool { return in.Stdin.Fired() }

// Open reports whether the client holds its ends of stdin and stdout.
func (in *Side) Open() bool { return !in.Stdin.Fired() && !in.Stdout.Fired() }

// HeldByNobodyBut reports whether no process outside the payload can write to stdin, or the server has
// closed it.
func (in *Side) HeldByNobodyBut(p freeze.Target) bool {
	if in.Stdin.Unheld() {
		return true
	}
	members, err := p.Members()
	if err != nil {
		return false
	}
	inside := map[int]bool{os.Getpid(): true}
	for _, pid := range members {
		inside[pid] = true
	}
	return !in.heldOutside(inside)
}

// Blocked reports whether stdout is full.
func (in *Side) Blocked() bool { return in.Room[0].Full() }

// Unread reports whether the server has unread input.
func (in *Side) Unread() bool {
	if in.Socket { // its hang-up looks like input
		return in.Main >= 0 && unreadInput(in.Main, in.File)
	}
	return in.Input.Readable()
}

func (in *Side) Add(to *loop.Loop) error {
	in.loop = to
	for fd, t := range map[int]loop.Token{
		in.Stdin.FD(): loop.TokenStdin, in.Stdout.FD(): loop.TokenStdout, in.PIDFD: loop.TokenClient,
	} {
		if err := to.Add(fd, t); err != nil {
			return err
		}
	}
	return nil
}

// WatchAgain continues after a hang-up that was undone.
func (in *Side) WatchAgain() {
	in.loop.Again(in.Stdin.FD(), loop.TokenStdin)
	in.loop.Again(in.Stdout.FD(), loop.TokenStdout)
}

// Describe returns the process that started the server: our parent, unless pid is given.
func Describe(pid int, name string) protocol.ClientFacts {
	if pid == 0 {
		pid = os.Getppid()
	}
	c := protocol.ClientFacts{PID: pid}
	if st, err := proc.ReadStat(c.PID); err == nil {
		c.Name, c.Start = st.Comm, st.StartTime
	}
	c.Name = cmp.Or(name, c.Name)
	return c
}
