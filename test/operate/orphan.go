// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// orphaned kills both who guard the server.
func (s *server) orphaned() {
	t := s.ground.T
	t.Helper()
	var supervisor *escape.Process
	for _, l := range s.ground.list("inspect", s.id) {
		var err error
		if supervisor, err = escape.OpenProcess(l.Supervisor); err != nil {
			t.Fatal(err)
		}
		defer supervisor.Close()
	}
	if supervisor == nil {
		t.Fatal("it is not listed")
	}
	if err := escape.KillGuards(s.Server, supervisor); err != nil {
		t.Fatal(err)
	}
}

// own is what a sweep of another test does not reach: starts sweep their own slice.
func (g *ground) own() []string {
	if g.Owns || g.Removal == 0 {
		return nil
	}
	return []string{"--slice", g.name + ".slice"}
}

// Orphans are shown, and ended by a sweep; what is in use is not.
func Orphans(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		live := g.plain(g.own()...)
		const tries = 12
		for try := 1; !g.swept(); try++ {
			if try == tries {
				t.Fatalf("sweeps of other tests took all of %d orphans", tries)
			}
		}
		live.lives()
		g.want([]*server{live}, "ls")
	})
}

// swept shows and sweeps an orphan. It is false if another test's sweep was faster: then the
// orphan ends without ours.
func (g *ground) swept() bool {
	orphan := g.start(g.own(), g.Programs.Zoo, "ignore-both")
	orphan.orphaned()
	if g.Groups == nil { // the supervisor's guard ends it
		orphan.dead()
		return true
	}
	if !g.tells(orphan, "sweep", "--dry-run") || len(g.ids("ls", "--orphans")) == 0 {
		orphan.dead()
		return false
	}
	g.well("sweep", "--older-than", "1h")
	g.well("sweep", "--unit", "no-such.service")
	if len(orphan.members.Running()) == 0 {
		g.T.Log("another test has swept")
	} else {
		g.want([]*server{orphan}, "ls", "--orphans")
	}
	if !g.tells(orphan, "sweep") {
		orphan.dead()
		return false
	}
	if left := orphan.members.Running(); len(left) > 0 {
		g.T.Errorf("sweep left %q", left)
	}
	return true
}

// tells is false where a sweep tells of nothing of this ground; of anything but the orphan it must
// not.
func (g *ground) tells(orphan *server, sweep ...string) bool {
	var told struct{ ID, Name string }
	for _, line := range g.mine(g.well(append(sweep, "--json")...)) {
		if err := json.Unmarshal([]byte(line), &told); err != nil || told.ID != orphan.id || told.Name != g.name {
			g.T.Errorf("%q tells of %s (%v), not of %s", sweep, line, err, orphan.id)
		}
	}
	return told.ID != ""
}

// mine are the lines that name this ground's servers.
func (g *ground) mine(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"`+g.name+`"`) {
			all = append(all, line)
		}
	}
	return all
}
