// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// keepEnds are the ends of a server and of its client. A SIGKILL of the launcher comes when the daemon was seen.
var keepEnds = []struct {
	name   string
	isLate bool
	do     func(*server)
}{
	{"stdin", false, func(s *server) { s.Tell("close") }},
	{"TERM", false, func(s *server) { s.Tell("signal %d", unix.SIGTERM) }},
	{"main", false, func(s *server) { first, _ := s.members.Main(); first.Signal(unix.SIGKILL) }},
	{"stop", false, func(s *server) { s.ground.well("stop", s.id) }},
	{"client", false, func(s *server) { s.Own.Signal(unix.SIGKILL) }},
	{"exit", false, func(s *server) { s.Tell("exit") }},
	{"stdin, later", true, func(s *server) { s.Tell("close") }},
	{"main, later", true, func(s *server) { first, _ := s.members.Main(); first.Signal(unix.SIGKILL) }},
	{"kill", true, func(s *server) { s.Server.Signal(unix.SIGKILL) }},
	{"killpg", true, func(s *server) { s.Tell("killpg 9") }},
}

// Keep: a daemon that a pattern keeps lives through each end of its server and client, with its child, and so does a
// program that the server has detached. Another daemon does not, nor a worker in a session of its own. It is in one list alone, no sweep and no newer server stops it, and mcpscope stop does. With the
// backend tree it ends, and a note says why.
func Keep(t *testing.T, s Subject) {
	for _, end := range keepEnds {
		t.Run(end.name, func(t *testing.T) {
			on(t, s, func(t *testing.T, g *ground) { g.keep(end.isLate, end.do) })
		})
	}
}

func (g *ground) keep(isLate bool, end func(*server)) {
	t := g.T
	t.Helper()
	program := "d-" + g.name
	flags := []string{"--keep", program + "*", "--eof-grace", "100ms", "--term-grace", "200ms"}
	s := g.start(flags, g.Programs.Zoo, "--target", program, "daemons")
	isTree := g.Groups == nil
	if isTree {
		if said := g.well("inspect", s.id); !strings.Contains(said, "nothing is kept") {
			t.Errorf("inspect does not say that nothing is kept: %s", said)
		}
		end(s)
		s.members.WantDead(t)
		return
	}
	if isLate {
		s.awaitKept("daemon")
		s.awaitKept("detached")
	}
	end(s)
	if !s.members.AwaitLiving(3, escape.Patience) {
		t.Errorf("want the daemon, its window, and the detached program:\n\t%s",
			strings.Join(s.members.Survivors(), "\n\t"))
	}
	for _, role := range []string{"daemon", "window", "detached"} {
		s.awaitKept(role)
	}
	g.wantKept(s, program)
	next := g.plain("--replace")
	g.run("sweep")                                              // of other tests, too
	g.run("stop", "--client", strconv.Itoa(s.Own.PID), "--yes") // there may be none
	g.wantKept(s, program)
	next.Tell("close")
	g.well("stop", program, program+"+")
	s.members.WantDead(t)
	if left := g.kept(program); len(left) > 0 {
		t.Errorf("after the stop: %+v", left)
	}
}

// awaitKept waits until a member is in a group of its own.
func (s *server) awaitKept(role string) {
	t := s.ground.T
	t.Helper()
	where := ""
	isKept := pace.Eventually(escape.Patience, func() bool {
		where, _ = bed.ProcessPath(s.members.Find("/" + role)) // "", if it has ended
		return strings.HasPrefix(filepath.Base(where), "mcpscope-kept-")
	})
	if isScope := strings.HasSuffix(where, ".scope"); !isKept || isScope != (s.ground.Removal > 0) {
		t.Fatalf("the %s is in %q", role, where)
	}
}

// kept are the rows of ls with that name.
func (g *ground) kept(program string) (found []keptRow) {
	g.T.Helper()
	var all struct{ Servers []keptRow }
	if err := json.Unmarshal([]byte(g.well("ls", "--json")), &all); err != nil {
		g.T.Fatal(err)
	}
	for _, row := range all.Servers {
		if row.Name == program {
			found = append(found, row)
		}
	}
	return found
}

// keptRow has the fields of ls --json that tests read.
type keptRow struct {
	ID, Name, State string
	Client          struct{ PID int }
	Processes       int
	Kept            struct{ Server, From string }
}

// wantKept: it is listed once, with the server and the client that it is from.
func (g *ground) wantKept(s *server, program string) {
	g.T.Helper()
	rows := g.kept(program)
	if len(rows) != 1 {
		g.T.Fatalf("ls has it %d times: %+v", len(rows), rows)
	}
	r := rows[0]
	isOf := r.Kept.Server == g.name && r.Kept.From == s.id && r.Client.PID == s.Own.PID
	if r.State != "kept" || r.Processes != 2 || !isOf {
		g.T.Errorf("ls has %+v, want the daemon of %s (%s), by the client %d", r, g.name, s.id, s.Own.PID)
	}
}
