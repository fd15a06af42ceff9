// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// wantFailure runs what has to fail with this status and this text.
func (g *ground) wantFailure(status int, text string, args ...string) {
	g.T.Helper()
	o := g.run(args...)
	if o.Status.ExitStatus() != status || !strings.Contains(o.Stderr, text) || o.Stdout != "" {
		g.T.Errorf("%q ended with %v, and said %q; stderr: %s", args, o.Status, o.Stdout, o.Stderr)
	}
}

// Stop ends what is named, and nothing else, before it returns.
func Stop(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		spared, stubborn := g.plain(), g.start([]string{"--term-grace", "infinity"}, g.Programs.Zoo, "ignore-both")
		if got, want := g.well("stop", stubborn.id, "--grace", "200ms"), fmt.Sprintf("stopped %s (%s)\n", g.name, stubborn.id); got != want {
			t.Errorf("stop said %q, want %q", got, want)
		}
		if left := stubborn.members.Running(); len(left) > 0 {
			t.Errorf("stop returned before they were dead: %q", left)
		}
		spared.lives()
		third := g.plain()
		g.well("stop", g.name) // means all of them
		for _, s := range []*server{spared, third} {
			if left := s.members.Running(); len(left) > 0 {
				t.Errorf("stop by name left %q", left)
			}
		}
	})
}

// StopNow: a server that is being ended can still be ended at once.
func StopNow(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.start([]string{"--term-grace", "infinity"}, g.Probe)
		server.Tell("signal %d", unix.SIGTERM)
		if !server.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(transparent.Received(all)) == 1 }) {
			t.Fatal("it was not asked")
		}
		// the members are asked first, and then the note is made
		got := g.list("inspect", server.id)
		for deadline := time.Now().Add(escape.Patience); len(got) == 1 && got[0].State != "ending" && time.Now().Before(deadline); {
			got = g.list("inspect", server.id)
		}
		if len(got) != 1 || got[0].State != "ending" {
			t.Errorf("it is being ended, and shown as %+v", got)
		}
		g.well("stop", "--now", server.id)
		if left := server.members.Running(); len(left) > 0 {
			t.Errorf("stop returned before they were dead: %q", left)
		}
	})
}

// StopClient ends all servers of one client, and those of no other.
func StopClient(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		one, other := g.plain(), g.plain()
		client := strconv.Itoa(one.Own.PID)
		g.want([]*server{one}, "ls", "--client", client)
		g.well("stop", "--client", client)
		if left := one.members.Running(); len(left) > 0 {
			t.Errorf("stop returned before they were dead: %q", left)
		}
		other.lives()
	})
}

// Wait returns when the server has ended, and not before.
func Wait(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.plain()
		waiting := g.Command(g.Program, "wait", server.id)
		var said strings.Builder
		waiting.Stderr = &said
		g.Site.Start(g.Unique("operator"), waiting)
		p, err := escape.OpenProcess(waiting.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if !untilItWaits(p) {
			t.Error("wait does not wait")
		}
		server.lives()
		server.Tell("close")
		if !p.Ended(escape.Patience) {
			t.Error("wait waits on")
			_ = waiting.Process.Kill() // as good as ended
		}
		if err := waiting.Wait(); err != nil {
			t.Errorf("%v; stderr: %s", err, said.String())
		}
		server.dead()
	})
}

// Stranger: a server is for its own user and root. other makes a command of somebody else's.
func Stranger(t *testing.T, s Subject, other func(...string) *exec.Cmd) {
	on(t, s, func(t *testing.T, g *ground) {
		server := g.plain()
		for _, command := range []string{"stop", "inspect", "freeze", "wait"} {
			for _, arg := range []string{server.id, g.name} {
				o, err := escape.Finish(g.Unique("operator"), other(g.Program, command, arg))
				if err != nil || o.Status.ExitStatus() != 1 || !strings.Contains(o.Stderr, "is a server of user") || o.Stdout != "" {
					t.Errorf("%s %s: %v, %v, %q; stderr: %s", command, arg, o.Status, err, o.Stdout, o.Stderr)
				}
			}
		}
		o, err := escape.Finish(g.Unique("operator"), other(g.Program, "ls"))
		if err != nil || o.Status != 0 || strings.Contains(o.Stdout, server.id) {
			t.Errorf("ls: %v, %v, %q; stderr: %s", o.Status, err, o.Stdout, o.Stderr)
		}
		server.lives()
	})
}
