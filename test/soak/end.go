// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// An end is one of a server's life.
type end struct {
	name  string
	obeys bool // it takes a server that does as it is told
	// do returns how the client must see the server end, or "" where no client is left.
	do func(*cycle) (status string)
	// returns tells that the launcher comes to its end by itself.
	returns bool
	// loud tells that mcpscope has to say that it was broken.
	loud bool
	// unguarded tells that somebody else has to end the members.
	unguarded func(*cycle)
}

// drawable are the ends that the backend has an answer to.
func (p *Plan) drawable(t *testing.T) []end {
	t.Helper()
	all := []end{
		{name: "exits", obeys: true, returns: true, do: (*cycle).exit},
		{name: "dies", obeys: true, returns: true, do: (*cycle).die},
		{name: "superv", returns: true, loud: true, do: func(c *cycle) string {
			c.supervisor.Signal(unix.SIGKILL)
			return "exit 125"
		}},
	}
	for _, e := range escape.Named(t, escape.Ends(), "stdin", "TERM", "INT", "HUP", "kill", "killpg", "tree", "client", "exit") {
		all = append(all, p.borrowed(e))
	}
	if p.Orphans {
		all = append(all, end{name: "guards+sweep", do: (*cycle).unguard, unguarded: (*cycle).sweepAfter},
			end{name: "guards+start", do: (*cycle).unguard, unguarded: (*cycle).startAfter})
	}
	return all
}

// borrowed is an end of the escape table.
func (p *Plan) borrowed(e escape.End) end {
	return end{name: e.Name, returns: !e.KillsLauncher, do: func(c *cycle) string {
		e.Do(&escape.Cell{T: c.t, Site: c.site, Client: c.client})
		switch {
		case e.KillsClient:
			return ""
		case e.KillsLauncher:
			return killed
		}
		return c.foretold(e.Name)
	}}
}

func (c *cycle) foretold(end string) string {
	for i, name := range []string{"TERM", "INT", "HUP"} {
		if name == end {
			return c.server.asked(asking[i])
		}
	}
	return c.server.closed()
}

func (c *cycle) exit() string {
	status := fmt.Sprint("exit ", c.rand.IntN(256))
	c.client.Tell("write %s", status)
	return status
}

func (c *cycle) die() string {
	sig := drawDeath(c.rand)
	c.client.Tell("write die %d", sig)
	return fmt.Sprint("signal ", int(sig))
}

// drawDeath draws a signal whose default is to kill. 32 and 33 are the C library's.
func drawDeath(r *rand.Rand) unix.Signal {
	for {
		switch sig := unix.Signal(1 + r.IntN(64)); sig {
		case unix.SIGCHLD, unix.SIGCONT, unix.SIGSTOP, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGURG, unix.SIGWINCH, 32, 33:
		default:
			return sig
		}
	}
}

// unguard kills launcher and supervisor at a time: each would act on the other's death.
func (c *cycle) unguard() string {
	if err := escape.KillGuards(c.client.Server, c.supervisor); err != nil {
		c.t.Error(err)
	}
	return killed
}

func (c *cycle) sweepAfter() { c.plan.mcpscope(c.t, c.group, "sweep") }

// startAfter starts another server of the name, which finds the orphan.
func (c *cycle) startAfter() {
	c.t.Helper()
	s := server{command: []string{c.site.Programs.Zoo, "plain"}, unanimous: true}
	register := escape.NewMembers(c.t)
	next := c.start(s, register)
	if err := register.UntilReady(patience); err != nil {
		c.t.Fatalf("the next server: %v; stderr: %s", err, escape.Contents(next.Stderr))
	}
	c.members.UntilDead(patience) // who is left is counted later
	next.Tell("close")
	if status := next.Status(patience); status != "exit 0" {
		c.t.Errorf("the next server ended with %q", status)
	}
}
