// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// A server is one that mcpscope runs for a client, in a world of its own.
type server struct {
	*escape.Client
	world   *world
	members *escape.Members
	group   string
	guard   *escape.Process
}

// startServer starts command (with --register added) under mcpscope with the
// flags, below a client with the options, and waits until it is ready.
func startServer(w *world, options, flags []string, command ...string) *server {
	w.T.Helper()
	s := launchServer(w, options, flags, command...)
	s.ready()
	return s
}

// launchServer is startServer without the wait: ready has to follow.
func launchServer(w *world, options, flags []string, command ...string) *server {
	w.T.Helper()
	s := &server{world: w, members: escape.NewMembers(w.T)}
	line := append([]string{binaries.mcpscope, "run", "--name", "server"}, flags...)
	line = append(append(line, "--"), command[0], "--register", s.members.Address)
	s.Client = w.NewClient(w.Unique("client"), options, append(line, command[1:]...))
	return s
}

// ready waits until all members are up.
func (s *server) ready() {
	w := s.world
	w.T.Helper()
	if err := s.members.UntilReady(escape.Patience); err != nil {
		w.T.Fatalf("%v; client: %q; stderr: %s", err, s.Client.Lines(), escape.Contents(s.Stderr))
	}
	s.group, s.guard = w.find(s.members)
}

// startProbe is startServer for a probe in a new world.
func startProbe(t *testing.T, flags []string, args ...string) *server {
	t.Helper()
	return startServer(newWorld(t), []string{"--group"}, flags, append([]string{binaries.probe}, args...)...)
}

// find returns the group and the guard of the members.
func (w *world) find(m *escape.Members) (group string, guard *escape.Process) {
	w.T.Helper()
	_, id := m.Main()
	var err error
	if len(escape.Servers(rootsSlice(w.Site), "*", id)) == 0 { // it is a tree
		guard, err = escape.GuardOfTree(id)
	} else {
		group, guard, err = escape.FindServer(rootsSlice(w.Site), id)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(guard.Close)
	return group, guard
}

// dead waits until all members, the launcher and the guard have exited and their group is removed.
func (s *server) dead() {
	s.world.T.Helper()
	s.members.WantDead(s.world.T)
	escape.WantEnded(s.world.T, s.Server, s.guard)
	s.world.clean()
}

// signals are those that the members have got so far, by pid.
func (s *server) signals() map[int][]unix.Signal { return transparent.Received(s.members.Said()) }

// Wait until n members have got a signal.
func (s *server) told(n int) {
	s.world.T.Helper()
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(transparent.Received(all)) >= n }) {
		s.world.T.Errorf("%d of %d members got a signal: %v", len(s.signals()), n, s.signals())
	}
}

// wantAsked: each of n members got this signal exactly once.
func (s *server) wantAsked(n int, want unix.Signal) {
	s.world.T.Helper()
	got := s.signals()
	for pid, all := range got {
		if len(all) != 1 || all[0] != want {
			s.world.T.Errorf("process %d got %v, want %v once", pid, all, want)
		}
	}
	if len(got) != n {
		s.world.T.Errorf("%d members got a signal, want %d", len(got), n)
	}
}
