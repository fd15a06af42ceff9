// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A server is one of the zoo's, or a probe, with the facts of its main process.
type server struct {
	command   []string // without the address that it registers with
	stays     bool     // when its stdin ends
	deaf      bool     // to SIGTERM
	exits     bool     // with 0 at SIGTERM
	unanimous bool     // no member outlives SIGTERM
}

// inmates are those of the zoo's modes that are cheap enough for thousands of cycles.
var inmates = []server{
	{command: []string{"plain"}, unanimous: true},
	{command: []string{"ignore-eof"}, unanimous: true, stays: true},
	{command: []string{"ignore-term"}, deaf: true},
	{command: []string{"ignore-both"}, deaf: true, stays: true},
	{command: []string{"fork-on-term"}, deaf: true, stays: true},
	{command: []string{"setsid"}}, {command: []string{"double-fork"}}, {command: []string{"vfork"}},
	{command: []string{"dead-leader"}}, {command: []string{"no-env"}}, {command: []string{"no-fds"}},
	{command: []string{"hold-stdout"}}, {command: []string{"stopped"}}, {command: []string{"traced"}},
}

// draw draws a server, a probe where it has to exit or die on request.
func (p *Plan) draw(r *rand.Rand, probe bool) server {
	if !probe && r.IntN(4) > 0 {
		s := inmates[r.IntN(len(inmates))]
		s.command = append([]string{p.site.Programs.Zoo}, s.command...)
		return s
	}
	command := []string{p.Probe, "--members", strconv.Itoa(r.IntN(4))}
	if r.IntN(2) == 0 {
		return server{command: append(command, "--ends"), exits: true, unanimous: true}
	}
	return server{command: command, deaf: true}
}

// line is its command, run contained. A grace is short where it will be used up, and long where the status
// depends on a process that must get the time to exit.
func (s server) line(p *Plan, name, register string) []string {
	eof := "10s"
	term := "100ms"
	if s.stays {
		eof = "100ms"
	}
	if s.unanimous {
		term = "10s"
	}
	line := []string{p.Program, "run", "--backend", p.Backend.Name, "--name", name,
		"--eof-grace", eof, "--term-grace", term, "--", s.command[0], "--register", register}
	return append(line, s.command[1:]...)
}

const killed = "signal 9"

// status predicts the status after SIGTERM, or after the end of stdin. A signal that kills decides the status
// when it is sent, so that a SIGKILL soon after does not change it.
func (s server) status(end string) string {
	switch {
	case s.exits, end == "stdin" && !s.stays:
		return "exit 0"
	case s.deaf:
		return killed
	}
	return "signal 15"
}

// end is one of a server's life.
type end struct {
	name    string
	probe   bool                         // it takes a server that obeys
	do      func(*cycle) (status string) // that the client must see; "" without a client
	returns bool                         // the launcher exits by itself
	after   func(*cycle)                 // stops the members that have neither launcher nor guard
}

func (p *Plan) ends(t *testing.T) []end {
	t.Helper()
	all := []end{
		{name: "exits", probe: true, returns: true, do: func(c *cycle) string {
			status := fmt.Sprint("exit ", 1+c.rand.IntN(255)) // one that exits with 0 has only started the server
			c.client.Tell("write %s", status)
			return status
		}},
		{name: "dies", probe: true, returns: true, do: func(c *cycle) string {
			sig := deadly[c.rand.IntN(len(deadly))]
			c.client.Tell("write die %d", sig)
			return fmt.Sprint("signal ", int(sig))
		}},
		{name: "guard", returns: true, do: func(c *cycle) string { // the launcher forks another one
			c.guard.Signal(unix.SIGKILL)
			c.guard.Ended(escape.Patience)
			c.find()
			c.client.Tell("close")
			return c.server.status("stdin")
		}},
	}
	for _, e := range escape.Named(t, escape.Ends(), "stdin", "TERM", "kill", "killpg", "tree", "client",
		"exit") {
		all = append(all, end{name: e.Name, returns: !e.KillsLauncher, do: func(c *cycle) string {
			e.Do(&escape.Cell{T: c.t, Site: c.site, Client: c.client})
			switch {
			case e.KillsClient:
				return ""
			case e.KillsLauncher:
				return killed
			}
			return c.server.status(e.Name)
		}})
	}
	if !p.Orphans {
		return all
	}
	orphan := func(c *cycle) string {
		if err := escape.KillTogether(c.guard, c.client.Server); err != nil {
			c.t.Error(err)
		}
		return killed
	}
	sweep := func(c *cycle) { c.plan.mcpscope(c.t, c.group, "sweep", "--quiet") }
	start := func(c *cycle) { // the next server finds the orphan
		// a server that has ended before it is settled sweeps nothing
		c.plan.mcpscope(c.t, c.group, "run", "--backend", c.plan.Backend.Name, "--name", c.name, "--", "sleep", "1")
	}
	return append(all, end{name: "guards+sweep", do: orphan, after: sweep},
		end{name: "guards+start", do: orphan, after: start})
}

// deadly are some of the signals whose default is to kill.
var deadly = []unix.Signal{unix.SIGHUP, unix.SIGQUIT, unix.SIGABRT, unix.SIGKILL, unix.SIGSEGV,
	unix.SIGPIPE, unix.SIGTERM, 34, 64}

// A cycle is one server's life.
type cycle struct {
	t         *testing.T
	plan      *Plan
	site      *escape.Site // the plan's, with the cycle's t
	rand      *rand.Rand
	name      string
	group     string // the client's
	server    server
	client    *escape.Client
	members   *escape.Members
	guard     *escape.Process
	directory string // of the server, or ""
}

func (p *Plan) cycle(t *testing.T, lane, n int, ends []end) {
	site := *p.site
	site.T = t
	c := &cycle{t: t, plan: p, site: &site, name: laneName(lane),
		rand: rand.New(rand.NewPCG(p.seed, uint64(lane)<<32|uint64(n)))}
	c.group = site.Dir + "/" + c.name
	e := ends[c.rand.IntN(len(ends))]
	c.server = p.draw(c.rand, e.probe)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %q, end %s", p.seed, c.server.command, e.name)
		}
	}()
	c.start()
	c.judge(e, e.do(c))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[e.name]++
}

// start returns when all members live, and are held.
func (c *cycle) start() {
	c.t.Helper()
	if starts := c.plan.Backend.Starts; starts != nil {
		defer starts.Take(1)()
	}
	c.members = escape.NewMembers(c.t)
	c.client = c.site.NewClient(c.group, []string{"--group"}, c.server.line(c.plan, c.name, c.members.Address))
	err := c.members.UntilReady(escape.Patience)
	if err != nil {
		c.t.Fatalf("%v; client: %q; stderr: %s", err, c.client.Lines(), escape.Contents(c.client.Stderr))
	}
	c.find()
}

// find finds the guard that there is, and the directory.
func (c *cycle) find() {
	c.t.Helper()
	_, id := c.members.Main()
	var err error
	if groups := c.plan.Backend.Groups; groups == nil {
		c.guard, err = escape.GuardOfTree(id)
	} else {
		c.directory, c.guard, err = escape.FindServer(groups(c.site, c.group), id)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.guard.Close)
}

// judge fails the test for each broken promise after a stop.
func (c *cycle) judge(e end, want string) {
	c.t.Helper()
	if !c.client.Server.Ended(escape.Patience) {
		c.t.Fatalf("the launcher lives: %s", escape.Describe(c.client.Server.PID))
	}
	if early := c.members.Running(); e.returns && len(early) > 0 {
		c.t.Errorf("the launcher returned before %d members were dead: %.200q", len(early), early)
	}
	if want != "" {
		if got := c.client.Status(escape.Patience); got != want {
			c.t.Errorf("ended with %q, want %q", got, want)
		}
		if said := escape.Contents(c.client.Stderr); said != "" {
			c.t.Errorf("stderr: %q", said)
		}
	}
	if e.after != nil {
		e.after(c)
	}
	c.members.WantDead(c.t)
	if !c.guard.Ended(escape.Patience) {
		c.t.Errorf("the guard lives: %s", escape.Describe(c.guard.PID))
	}
	if c.directory == "" {
		return
	}
	if err := escape.AwaitRemoval(c.directory, escape.Patience); err != nil {
		c.t.Errorf("%v: %s", err, escape.Tree(c.directory))
	}
}
