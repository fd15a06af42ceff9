// SPDX-License-Identifier: Apache-2.0

// Package fault interrupts `mcpscope run` wherever it meets the kernel or a manager: every
// system call of its processes, found by watching a run, and every message to and from a
// manager. At each of these points guards are killed, or the call fails. Afterwards either the
// server ran contained, or nothing of it is left and a line says why.
//
// The calls are held by a seccomp listener (seccomp_unotify(2)), in which the real kernel
// waits for the test: it lets a call go on, answers it with an error, or kills a process
// first. The calls of mcpscope are not changed, and only its own processes are touched.
package fault

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

var programs = escape.ProgramsIn(host.Shared)

// The other programs of the tests.
var (
	mcpscope = filepath.Join(host.Shared, "mcpscope")
	stage    = filepath.Join(host.Shared, "stage")
	server   = filepath.Join(host.Shared, "server")
)

func TestMain(m *testing.M) {
	escape.Choose(m, "fault")
	bed.Parallel(256) // lanes bound the work
	host.Main(m, host.Options{Users: true, Build: build, Writable: escape.TableFiles()})
}

func build(dir string) error {
	return escape.Build(dir, map[string][]string{
		"stage":  escape.CC("stage/stage.c"),
		"server": escape.CC("server/server.c", "../escape/zoo/register.c", "../escape/zoo/member.c"),
	})
}

// traces are how many runs are watched to find the points: not every run meets all.
const traces = 3

// rounds is how often the same call on the same thing is a point. A loop that waits until all
// members are stopped or dead makes the call some thousand times.
const rounds = 5

// workers is how many runs go on at a time; they wait more than they work.
const workers = 6

// TestFaults holds the promises at every system call of mcpscope, and at every message to and from a manager. Unless all is
// asked for, every second point of the backend cgroup is tried, with one fault, and neighbouring ones with different ones.
func TestFaults(t *testing.T) {
	subject := func(b backend, name string, workers int, kind func(visit) bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b.everywhere(t, name, workers, kind)
		})
	}
	subject(cgroup, "cgroup", workers, isCall)
	if !escape.Full() {
		return // a bus that is slow or silent takes its time
	}
	subject(tree, "tree", workers, isCall)
	subject(managed(host.Tester), "systemd-user", 3, isCall) // what differs from the backend cgroup are the messages
	for y, b := range ways() {
		b.way = y
		subject(b, b.name+" by "+filepath.Base(y.socket), 1, isMessage) // a manager reports all units to all users
	}
}

// everywhere tries the points of a kind, on some lanes at a time.
func (b backend) everywhere(t *testing.T, title string, workers int, kind func(visit) bool) {
	all := b.lanes(t, workers)
	points := b.trace(t, all, kind)
	counts := make(chan verdict, 1<<16) // more than there are
	t.Run("at", func(t *testing.T) {
		for _, s := range b.plan(points) {
			t.Run(s.name(), func(t *testing.T) {
				t.Parallel()
				l := <-all
				defer func() { all <- l }()
				counts <- l.shoot(t, s)
			})
		}
	})
	close(counts)
	sum := map[verdict]int{}
	for v := range counts {
		sum[v]++
	}
	text := fmt.Sprintf("\nfaults, backend %s, at %d points: %v\n", title, len(points), sum)
	fmt.Print(text)
	if err := escape.AppendTable(text); err != nil {
		t.Error(err)
	}
}

// trace watches some runs, and returns the points in the order in which they were met.
func (b backend) trace(t *testing.T, all lanes, kind func(visit) bool) (points []visit) {
	t.Helper()
	known := map[point]bool{}
	for range traces {
		l := <-all
		t.Run("trace", func(t *testing.T) {
			r := l.start(t, nil)
			r.live()
			if v := r.judge(); v != usual {
				t.Fatalf("broken without a fault: %s\n\t%s", v, r.explain())
			}
			for _, v := range r.watcher.visits {
				if !known[v.point] && kind(v) && v.n <= rounds {
					points = append(points, v)
				}
				known[v.point] = true
			}
		})
		all <- l
	}
	if t.Failed() || len(points) == 0 {
		t.Fatalf("%d points were found", len(points))
	}
	return points
}

// plan chooses the faults of a backend: the calls on a manager's scopes, or on a tree, are mostly those on
// any group. TESTS_FAULTS=all tries all there, too.
func (b backend) plan(points []visit) (all []shot) {
	whole := escape.Full() && (b.name == cgroup.name || b.way != nil || os.Getenv("TESTS_FAULTS") == "all")
	for i, v := range points {
		for j, f := range v.faults() {
			if b.tree && f.unguarded() {
				continue // without a directory no sweep finds the members: docs/guarantees.md
			}
			if whole || j == i%len(v.faults()) && (escape.Full() || i%2 == 0) {
				all = append(all, shot{v, f})
			}
		}
	}
	return all
}

func (l *lane) shoot(t *testing.T, s shot) verdict {
	t.Helper()
	r := l.start(t, &s)
	r.live()
	v := r.judge()
	if v == broken {
		t.Errorf("broken: %s: %s", s, r.explain())
	}
	t.Logf("%s: %s. %s", s, v, escape.Contents(r.stderr))
	return v
}
