// SPDX-License-Identifier: Apache-2.0

package leaks

import (
	"maps"
	"os"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/sweep"
)

// An orphan has its figures from before the sweep, if it could be listed then.
func TestSweptOrphan(t *testing.T) {
	orphan := sweep.Swept{Name: "time", ID: "k3x9w2ab", Dir: "/dir", Stuck: "7 (D)"}
	measured := render.Server{
		Identity: render.Identity{ID: "forged", Name: "forged", Group: "/group", State: fleet.Running},
		Figures:  render.Figures{Processes: 3},
	}
	for _, c := range []struct {
		before    render.Server
		group     string
		processes int
	}{
		{render.Server{}, "/dir", 0},
		{measured, "/group", 3},
	} {
		v := SweptOrphan(orphan, c.before)
		if v.Version != 1 || v.Server.ID != orphan.ID || v.Server.Name != orphan.Name || v.Server.State != fleet.Orphaned ||
			v.Server.Group != c.group || v.Server.Processes != c.processes || v.Stuck != orphan.Stuck {
			t.Errorf("%+v", v)
		}
	}
}

func TestSweptLeak(t *testing.T) {
	parent := os.Getppid()
	l := &Leak{PID: os.Getpid(), UID: 7, Parent: parent, Name: "time", File: "/c", Argv: []string{"uvx", "--key", "K"}, Dir: "/d"}
	v := l.Swept()
	comm, _ := proc.Comm(parent) // "" is expected then, too
	if v.Server.State != leaked || v.PID != l.PID || v.Server.UID != 7 || v.Server.Processes != 1 || v.Parent.PID != parent || v.Parent.Name != comm ||
		v.Command != "uvx --key …" || v.Directory != "/d" || v.File != "/c" || v.Server.MemoryFrom != render.FromMembers || v.Stopped != nil {
		t.Errorf("%+v", v)
	}
}

// A process of a server, or with one below it, is no leak.
func TestIsInside(t *testing.T) {
	l := &Leak{PID: 10, Below: []int{11, 12}}
	for _, c := range []struct {
		grouped []int
		want    bool
	}{{nil, false}, {[]int{1, 13}, false}, {[]int{10}, true}, {[]int{1, 12}, true}} {
		if got := l.isInside(c.grouped); got != c.want {
			t.Errorf("%v: %v", c.grouped, got)
		}
	}
}

// Init adopts, and a program that only has the name of systemd does not: nor does the parent of a test.
func TestAdopters(t *testing.T) {
	own, err := proc.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	named := own
	named.Comm = "systemd"
	for _, st := range []proc.Stat{own, named, {}} { // the last has ended
		if got := adopters([]proc.Stat{st}); !maps.Equal(got, map[int]bool{1: true}) {
			t.Errorf("%+v: %v", st, got)
		}
	}
}

func TestOpen(t *testing.T) {
	st, err := proc.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	l := open(st, 0)
	if l == nil || l.PID != os.Getpid() || l.UID != os.Getuid() || l.Parent != os.Getppid() || !l.isSame() {
		t.Fatalf("%+v", l)
	}
	l.Close()
	if l := open(proc.Stat{PID: 1 << 30}, 0); l != nil {
		t.Errorf("of no process: %+v", l)
	}
}

// A leak that is none for sure is not stopped.
func TestDoubtfulIsNotStopped(t *testing.T) {
	st, err := proc.ReadStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	l := open(st, 0)
	defer l.Close()
	l.Doubt = "it is ours"
	if err := l.Stop(0); err == nil || err.Error() != l.Doubt {
		t.Error(err)
	}
	if v := l.Swept(); v.Server.State != unsure || v.Doubt != l.Doubt {
		t.Errorf("%+v", v)
	}
}
