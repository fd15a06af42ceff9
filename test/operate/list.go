// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Shown has the fields of `ls --json` and `inspect --json` that tests read.
type Shown struct {
	ID, Name, Backend, State, Policy string
	Client                           struct{ PID int }
	Launcher                         int `json:"launcher_pid"`
	Guard                            int `json:"guard_pid"`
	Processes                        int
	Tree                             []struct{ PID, PPID, Depth int }
}

// list runs a command that prints servers as JSON, and returns those of this ground.
func (g *ground) list(args ...string) []Shown {
	g.T.Helper()
	var found struct {
		Version int
		Servers []struct {
			Shown
			Server *Shown // of inspect, which has the tree beside it
		}
	}
	if err := json.Unmarshal([]byte(g.well(append(args, "--json")...)), &found); err != nil || found.Version != 1 {
		g.T.Fatalf("%q: version %d, %v", args, found.Version, err)
	}
	var shown []Shown
	for _, one := range found.Servers {
		if one.Server != nil {
			one.Server.Tree = one.Tree
			one.Shown = *one.Server
		}
		if one.Name == g.name {
			shown = append(shown, one.Shown)
		}
	}
	return shown
}

// ids are those that the command lists, sorted.
func (g *ground) ids(args ...string) []string {
	g.T.Helper()
	var all []string
	for _, l := range g.list(args...) {
		all = append(all, l.ID)
	}
	slices.Sort(all)
	return all
}

// want fails the test unless the command lists these servers and no other of this ground.
func (g *ground) want(servers []*server, args ...string) {
	g.T.Helper()
	var want []string
	for _, s := range servers {
		want = append(want, s.id)
	}
	slices.Sort(want)
	if got := g.ids(args...); !slices.Equal(got, want) {
		g.T.Errorf("%q lists %q, want %q", args, got, want)
	}
}

// Listed: ls and inspect show what runs, and nothing else.
func Listed(t *testing.T, s Subject) {
	on(t, s, func(t *testing.T, g *ground) {
		one := g.start(nil, g.Probe, "--members", "2")
		two := g.plain()
		got := g.list("ls", "--client", strconv.Itoa(one.Own.PID))
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		if l := got[0]; l.ID != one.id || l.State != "running" || l.Backend != s.Name || l.Client.PID != one.Own.PID ||
			l.Launcher != one.Server.PID || l.Guard == 0 || l.Processes != 3 {
			t.Errorf("%+v", l)
		}
		full := g.list("inspect", one.id[:7])
		if len(full) != 1 || len(full[0].Tree) != 3 || full[0].Tree[0].PPID != full[0].Launcher {
			t.Errorf("inspect: %+v", full)
		}
		g.want([]*server{one, two}, "ls")
		g.want([]*server{one, two}, "inspect", g.name)
		two.Tell("close")
		two.Status(escape.Patience)
		g.want([]*server{one}, "ls")
	})
}
