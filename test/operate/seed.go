// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// CronJobs: seven jobs run beside a chat, each with a server, and three are cancelled: one dies
// with its client, one with its launcher, and of one both guards are killed. After a sweep
// nothing of the three is left, and nothing of the others was touched.
func CronJobs(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		chat := g.start(g.own(), g.Probe, "--members", "2")
		var jobs []*server
		for range 7 {
			jobs = append(jobs, g.start(g.own(), g.Programs.Zoo, "setsid"))
		}
		jobs[1].Own.Signal(unix.SIGKILL)
		jobs[3].Server.Signal(unix.SIGKILL)
		if s.Name == "tree" { // whose orphans cannot be found
			jobs[5].Own.Signal(unix.SIGKILL)
		} else {
			jobs[5].orphaned()
		}
		g.well("sweep")
		for _, i := range []int{1, 3, 5} {
			jobs[i].dead()
			g.unlisted(jobs[i].id)
		}
		for _, i := range []int{0, 2, 4, 6} {
			jobs[i].lives()
		}
		chat.lives()
		if said := chat.members.Said(); hasSignal(said) {
			t.Errorf("the chat's server was asked to end: %v", said)
		}
		g.want([]*server{chat, jobs[0], jobs[2], jobs[4], jobs[6]}, "ls")
	})
}

// orphaned kills both who guard the server.
func (s *server) orphaned() {
	t := s.ground.T
	t.Helper()
	listed := s.ground.list("inspect", s.id)
	if len(listed) != 1 {
		t.Fatalf("%d servers are listed as %s", len(listed), s.id)
	}
	guard, err := escape.OpenProcess(listed[0].Guard)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	if err := escape.KillTogether(guard, s.Server); err != nil {
		t.Fatal(err)
	}
}

// own is out of reach of another test's sweep: starts sweep their own slice.
func (g *ground) own() []string {
	if g.Owns || g.Removal == 0 {
		return nil
	}
	return []string{"--slice", g.name + ".slice"}
}

func hasSignal(all []escape.Saying) bool {
	var pid, sig int
	for _, said := range all {
		if n, _ := fmt.Sscanf(said.Text, "signal %d %d", &pid, &sig); n == 2 {
			return true
		}
	}
	return false
}

// connections is how often the client connects.
func connections() int {
	if escape.Full() {
		return 200
	}
	return 6
}

// Reconnects: a client connects again and again without closing, and always has one server, or
// two for a moment.
func Reconnects(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		members := escape.NewMembers(t)
		line := g.line(members, []string{"--replace"}, g.Programs.Zoo, "plain")
		group := g.Unique("client")
		var last *escape.Bystander
		most := 0
		for i := range connections() {
			last = g.Bystander(fmt.Sprint("connection ", i), group, g.Command(line...))
			if !last.Lives() {
				t.Fatalf("connection %d is not answered", i)
			}
			if n := members.UntilFew(2, escape.Patience); n > 2 {
				t.Fatalf("after connection %d there are %d servers: %q; %+v", i, n, members.Running(), g.run("ls", "--json"))
			}
			most = max(most, len(members.Running()))
		}
		if n := members.UntilFew(1, escape.Patience); n != 1 || !last.Lives() {
			t.Errorf("%d servers live, of %d; the last one answers: %v", n, members.Count(), last.Lives())
		}
		if err := escape.AppendTable(fmt.Sprintf("reconnects, backend %s: %d without a close, %d servers at most\n", s.Name, connections(), most)); err != nil {
			t.Error(err)
		}
	})
}
