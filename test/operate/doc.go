// SPDX-License-Identifier: Apache-2.0

// Package operate tests the commands for operators, ls, inspect, stop and their kin, wherever
// servers' groups come from (escape.Backend).
//
// A host may have other servers, of other tests: each uses its own by id, and gives its
// servers a name that no other has. Like escape and transparent, the package knows the product
// by its command line alone, and imports none of it.
package operate

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A Subject is the program under test.
type Subject struct {
	escape.Backend
	Program string // mcpscope
	Probe   string // test/e2e/probe
}

// A ground is a part of the host for one test, with servers of one name.
type ground struct {
	Subject
	*escape.Site
	name string
}

var grounds atomic.Int32

// on runs the test on a ground of its own.
func on(t *testing.T, s Subject, test func(t *testing.T, g *ground)) {
	t.Helper()
	t.Parallel()
	if s.Hold != nil {
		s.Hold.Lock()
		t.Cleanup(s.Hold.Unlock)
	}
	test(t, newGround(t, s))
}

func newGround(t *testing.T, s Subject) *ground {
	t.Helper()
	return &ground{Subject: s, Site: s.Site(t), name: fmt.Sprint("op", grounds.Add(1))}
}

// A server is one that a client has started.
type server struct {
	*escape.Client
	ground  *ground
	members *escape.Members
	id      string
}

// start starts a command (with --register added) below a client of its own, and waits until it
// is ready.
func (g *ground) start(flags []string, command ...string) *server {
	g.T.Helper()
	if g.Starts != nil {
		defer g.Starts.Take(1)()
	}
	s := &server{ground: g, members: escape.NewMembers(g.T)}
	s.Client = g.client(g.line(s.members, flags, command...))
	s.ready()
	return s
}

// client starts a client in a group of its own.
func (g *ground) client(line []string) *escape.Client {
	g.T.Helper()
	return g.NewClient(g.Unique("client"), []string{"--group"}, line)
}

// line is the command line of a server.
func (g *ground) line(m *escape.Members, flags []string, command ...string) []string {
	line := append([]string{g.Program, "run", "--backend", g.Name, "--name", g.name}, flags...)
	return append(append(line, "--", command[0], "--register", m.Address), command[1:]...)
}

func (s *server) ready() {
	t := s.ground.T
	t.Helper()
	if err := s.members.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(s.Stderr))
	}
	_, s.id = s.members.Main()
}

// plain is the server that does nothing special.
func (g *ground) plain(flags ...string) *server {
	g.T.Helper()
	return g.start(flags, g.Programs.Zoo, "plain")
}

// lives fails the test if the server does not answer.
func (s *server) lives() {
	s.ground.T.Helper()
	if !s.Lives("still there?") {
		s.ground.T.Errorf("%s was hit", s.id)
	}
}

// run runs mcpscope as an operator does: not from a client's group.
func (g *ground) run(args ...string) escape.Outcome {
	g.T.Helper()
	o, err := escape.Finish(g.Unique("operator"), g.Command(append([]string{g.Program}, args...)...))
	if err != nil {
		g.T.Fatal(err)
	}
	return o
}

// well is run for commands that have to succeed.
func (g *ground) well(args ...string) string {
	g.T.Helper()
	o := g.run(args...)
	if o.Status != 0 || o.Stderr != "" {
		g.T.Errorf("%q ended with %v; stderr: %s", args, o.Status, o.Stderr)
	}
	return o.Stdout
}
