// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A cycle is one server's life.
type cycle struct {
	t          *testing.T
	plan       *Plan
	site       *escape.Site // the plan's, with our own t
	rand       *rand.Rand
	name       string
	group      string // the client's
	server     server
	client     *escape.Client
	members    *escape.Members
	supervisor *escape.Process
	directory  string // of the server, "" where it has none
}

func (p *Plan) cycle(t *testing.T, lane, n int) {
	site := *p.site
	site.T = t
	c := &cycle{t: t, plan: p, site: &site, name: laneName(lane), rand: rand.New(rand.NewPCG(p.seed, uint64(lane)<<32|uint64(n)))}
	c.group = site.Dir + "/" + c.name
	e := p.ends[c.rand.IntN(len(p.ends))]
	c.server = p.drawServer(c.rand, e.obeys)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d: %q, end %s", p.seed, c.server.command, e.name)
		}
	}()
	c.up()
	c.judge(e, e.do(c))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[e.name]++
}

// start starts a server for a client of its own.
func (c *cycle) start(s server, m *escape.Members) *escape.Client {
	return c.site.NewClient(c.group, []string{"--group"}, s.line(c.plan, c.name, m.Address))
}

// up returns when all members live, and are held.
func (c *cycle) up() {
	c.t.Helper()
	if starts := c.plan.Backend.Starts; starts != nil {
		defer starts.Take(1)()
	}
	c.members = escape.NewMembers(c.t)
	c.client = c.start(c.server, c.members)
	err := c.members.UntilReady(patience)
	if err != nil {
		c.t.Fatalf("%v; client: %q; stderr: %s", err, c.client.Lines(), escape.Contents(c.client.Stderr))
	}
	main, id := c.members.Main()
	if groups := c.plan.Backend.Groups; groups == nil {
		c.supervisor, err = escape.ParentProcess(main)
	} else {
		c.directory, c.supervisor, err = escape.FindServer(groups(c.site, c.group), id)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(c.supervisor.Close)
}

// judge fails the test for all that is not as promised after an end.
func (c *cycle) judge(e end, status string) {
	c.t.Helper()
	if !c.client.Server.Ended(patience) {
		c.t.Fatalf("the launcher lives: %s", escape.Describe(c.client.Server.PID))
	}
	if early := c.members.Running(); e.returns && len(early) > 0 {
		c.t.Errorf("the launcher returned before %d members were dead: %.200q", len(early), early)
	}
	if status != "" {
		c.judgeStatus(e, status)
	}
	if e.unguarded != nil {
		e.unguarded(c)
	}
	if n := c.members.UntilDead(patience); n > 0 {
		c.t.Errorf("%d members left:\n\t%s", n, strings.Join(c.members.Survivors(), "\n\t"))
	}
	if !c.supervisor.Ended(patience) {
		c.t.Errorf("the supervisor lives: %s", escape.Describe(c.supervisor.PID))
	}
	if c.directory == "" {
		return
	}
	if err := escape.AwaitRemoval(c.directory, patience); err != nil {
		c.t.Errorf("%v: %s", err, escape.Tree(c.directory))
	}
}

func (c *cycle) judgeStatus(e end, want string) {
	c.t.Helper()
	if got := c.client.Status(patience); got != want {
		c.t.Errorf("ended with %q, want %q", got, want)
	}
	said := escape.Contents(c.client.Stderr)
	if e.loud != (said != "") {
		c.t.Errorf("stderr: %q", said)
	}
}
