// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// The three cases from the field that mcpscope is there for, with gateways that know nothing of it: bare,
// which shows the leak, and below mcpscope gateway.

// seedEnd is what a server has: the EOF grace and the term grace, and a margin for a busy machine.
const seedEnd = 2200*time.Millisecond + 1500*time.Millisecond

// eachWay runs a gateway bare, and below mcpscope gateway, and prints what came of it.
func eachWay(t *testing.T, what string, command, flags []string, run func(*testing.T, *world, *Gateway, bool) string) {
	t.Helper()
	var said [2]string
	for i, how := range []string{"bare", "below"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			line := command
			if how != "bare" {
				line = append(append([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain}, flags...), append([]string{"--"}, command...)...)
			}
			said[i] = run(t, w, w.start(line), how == "bare")
		})
	}
	if err := escape.AppendTable(fmt.Sprintf("\nseed, %s\n  bare                    %s\n  below mcpscope gateway  %s\n", what, said[0], said[1])); err != nil {
		t.Error(err)
	}
}

// A client kills its runtime with no grace, and the runners of its servers keep those alive.
func TestSeedRuntimeKilled(t *testing.T) {
	dir := clients(t)
	count := 3
	if escape.Full() {
		count = 11
	}
	server := filepath.Join(dir, "node/node_modules/@modelcontextprotocol/server-memory/dist/index.js")
	runner := filepath.Join(t.TempDir(), "uvx") // a runner is known by its name
	if err := os.Symlink(filepath.Join(dir, "bin/uvxlike"), runner); err != nil {
		t.Fatal(err)
	}
	what := fmt.Sprintf("a runtime with %d servers behind a package runner is killed", count)
	eachWay(t, what, []string{filepath.Join(dir, "bin/tsgateway")}, nil, func(t *testing.T, w *world, g *Gateway, bare bool) string {
		for i := range count {
			g.Tell("server %d %s node %s", i, runner, server)
		}
		for i := range count {
			g.Expect(fmt.Sprint("server ", i))
		}
		tool := g.Tool("tool")
		servers := w.below(g, tool)
		if len(servers) != 2*count {
			t.Errorf("%d processes, want %d runners and %[2]d servers", len(servers), count)
		}
		killed := time.Now()
		g.Own.Signal(unix.SIGKILL)
		said, left := w.afterwards(servers, killed)
		if bare != (left > 0) {
			t.Errorf("%d left", left)
		}
		lives(t, "what a tool has left", tool)
		return said
	})
}

// Each tick of a job starts a server in a session of its own, and is cancelled: the gateway ends what it
// knows of, by process group. A chat and a job beside them are not to notice.
func TestSeedCronJobs(t *testing.T) {
	ticks := 10
	if escape.Full() {
		ticks = 100
	}
	what := fmt.Sprintf("%d jobs are cancelled or crash, and their process groups are swept", ticks)
	eachWay(t, what, []string{binaries.like, "gateway", "run"}, []string{"--eof-grace", "300ms", "--term-grace", "300ms"}, func(t *testing.T, w *world, g *Gateway, bare bool) string {
		chat, job := g.Server(binaries.Programs, "chat", "setsid"), g.Server(binaries.Programs, "job", "double-fork")
		jobs := escape.NewMembers(t)
		t.Cleanup(jobs.Kill)
		for i := range ticks {
			g.Tell("server %d %s --register %s setsid", i, binaries.Zoo, jobs.Address)
			g.Expect(fmt.Sprint("server ", i))
			if !jobs.AwaitBorn(2*(i+1), escape.Patience) {
				t.Fatalf("after %d jobs %d members were born", i+1, jobs.Count())
			}
			g.Tell("%s %d", []string{"cancel", "crash"}[i%2], i)
		}
		begin := time.Now()
		g.Tell("sweep")
		g.Expect("swept")
		if !bare {
			w.run("sweep")
		}
		left := jobs.UntilDead(seedEnd)
		if bare != (left > 0) {
			t.Errorf("%d left:\n\t%s", left, strings.Join(jobs.Survivors(), "\n\t"))
		}
		for _, s := range []*Server{chat, job} {
			g.Tell("ask %s", s.Name)
			if answer := g.Expect("answer " + s.Name); answer != "ping" || len(s.Running()) < 2 {
				t.Errorf("%s says %q; of its members %q are left", s.Name, answer, s.Running())
			}
		}
		if bare {
			return fmt.Sprintf("%d processes left of %d; the chat and the job beside them live", left, jobs.Count())
		}
		took := time.Since(begin)
		g.Own.Signal(unix.SIGKILL) // a full shutdown takes all
		w.dead(chat)
		w.dead(job)
		w.clean()
		return fmt.Sprintf("%d left of %d, after %.1f s; the chat and the job beside them live", left, jobs.Count(), took.Seconds())
	})
}

// Each transient error has a gateway start a fresh server, while the old one blocks on read(stdin).
func TestSeedReconnects(t *testing.T) {
	connections := 30
	if escape.Full() {
		connections = 300
	}
	what := fmt.Sprintf("%d reconnects without a close", connections)
	eachWay(t, what, []string{binaries.like, "gateway", "run"}, []string{"--replace"}, func(t *testing.T, w *world, g *Gateway, bare bool) string {
		members := escape.NewMembers(t)
		t.Cleanup(members.Kill)
		most := 0
		for i := range connections {
			g.Tell("server %d %s --register %s plain", i, binaries.Zoo, members.Address)
			g.Expect(fmt.Sprint("server ", i))
			if !members.AwaitBorn(i+1, escape.Patience) {
				t.Fatalf("after %d connections %d were born", i+1, members.Count())
			}
			if !bare {
				members.UntilFew(2, escape.Patience)
			}
			most = max(most, len(members.Running()))
		}
		last := fmt.Sprint(connections - 1)
		g.Tell("ask %s", last)
		if answer := g.Expect("answer " + last); answer != "ping" {
			t.Errorf("the last one says %q", answer)
		}
		if want := map[bool]int{true: connections, false: 2}[bare]; most > want || bare && most < want {
			t.Errorf("%d servers at a time, want %d", most, want)
		}
		return fmt.Sprintf("%d servers at a time", most)
	})
}

// below are the processes that a gateway has started, but for those that are spared.
func (w *world) below(g *Gateway, spared ...*escape.Process) []*escape.Process {
	w.T.Helper()
	pids, err := escape.GroupPids(filepath.Join(bed.Root(w.T), mustPath(w.T, g.PID)))
	if err != nil {
		w.T.Fatal(err)
	}
	not := map[int]bool{g.PID: true}
	for _, p := range spared {
		not[p.PID] = true
	}
	all := w.members()
	for _, pid := range pids {
		if not[pid] {
			continue
		}
		if p, err := escape.OpenProcess(pid); err == nil { // otherwise it has ended since
			w.T.Cleanup(p.Close)
			all = append(all, p)
		}
	}
	return all
}

// afterwards tells what is left of servers when they have had their time.
func (w *world) afterwards(servers []*escape.Process, killed time.Time) (said string, left int) {
	w.T.Helper()
	kilobytes := 0
	for _, p := range servers {
		if !p.Ended(time.Until(killed.Add(seedEnd))) {
			left++
			kilobytes += proportionalSize(w.T, p.PID)
		}
	}
	if left > 0 {
		return fmt.Sprintf("%d processes left of %d, %d MB", left, len(servers), kilobytes/1024), left
	}
	return fmt.Sprintf("0 left of %d, after %.1f s", len(servers), time.Since(killed).Seconds()), 0
}

// proportionalSize is memory in kB, with what processes share divided among them.
func proportionalSize(t *testing.T, pid int) (kilobytes int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "smaps_rollup"))
	_, after, found := strings.Cut(string(text), "\nPss:")
	if err == nil && found {
		kilobytes, err = strconv.Atoi(strings.Fields(after)[0])
	}
	if err != nil || !found {
		t.Errorf("read the size of %d: %v", pid, err)
	}
	return kilobytes
}

// A client hangs up as soon as it has spoken: the server ends while it is being put into its group, and what it
// has started by then is nobody's.
func TestHungUpAtOnce(t *testing.T) {
	w := newWorld(t)
	g := w.gateway("--eof-grace", "300ms", "--term-grace", "300ms")
	members := escape.NewMembers(t)
	t.Cleanup(members.Kill)
	count := 20
	if escape.Full() {
		count = 200
	}
	for i := range count {
		g.Tell("server %d %s --register %s setsid", i, binaries.Zoo, members.Address)
		g.Tell("cancel %d", i)
		g.Expect(fmt.Sprint("server ", i))
	}
	if !members.AwaitBorn(2*count, escape.Patience) {
		t.Errorf("%d of %d members were born", members.Count(), 2*count)
	}
	if left := members.UntilDead(seedEnd); left > 0 {
		t.Errorf("%d left:\n\t%s", left, strings.Join(members.Survivors(), "\n\t"))
	}
	g.Own.Signal(unix.SIGKILL)
	w.clean()
}

// A client that connects again starts the same command: that is captured before it runs, and whether or not it
// is spoken to.
func TestStartedAgain(t *testing.T) {
	w := newWorld(t)
	g := w.gateway()
	members := escape.NewMembers(t)
	t.Cleanup(members.Kill)
	for i, how := range []string{"server", "quiet"} {
		g.Tell("%s %d %s --register %s setsid", how, i, binaries.Zoo, members.Address)
		g.Expect(fmt.Sprint("server ", i))
		if !members.AwaitBorn(2*(i+1), escape.Patience) {
			t.Fatalf("%d members were born", members.Count())
		}
		for until := time.Now().Add(escape.Patience); i == 0 && listed(w) == 0 && time.Now().Before(until); {
			g.Tell("ask 0") // on a busy machine the first message can be missed
			g.Expect("answer 0")
		}
	}
	if n := listed(w); n != 2 {
		t.Errorf("ls has %d servers, want 2", n)
	}
	g.Own.Signal(unix.SIGKILL)
	if left := members.UntilDead(seedEnd); left > 0 {
		t.Errorf("%d left:\n\t%s", left, strings.Join(members.Survivors(), "\n\t"))
	}
	w.clean()
}

func listed(w *world) int {
	w.T.Helper()
	return strings.Count(w.run("ls", "--format", "{{.Name}}"), "zoo\n")
}
