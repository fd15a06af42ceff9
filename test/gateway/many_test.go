// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// many is more servers than a table of 512 has room for, than the 500 epoll sets that the kernel allows to have
// the gateway's pidfd, than the 278 messages that a socket holds, and, with the descriptors of each, than the
// soft limit of 1024 that every distribution has.
const many = 600

// configured begins the command line of a gateway whose user has configured a program as a server.
func (w *world) configured(program, limit string) []string {
	w.T.Helper()
	home := w.T.TempDir()
	text := fmt.Sprintf(`{"mcpServers": {"many": {"command": %q}}}`, program)
	file := filepath.Join(home, ".cursor", "mcp.json")
	err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
	if err != nil {
		w.T.Fatal(err)
	}
	return []string{"/bin/sh", "-c", limit + ` && HOME="$0" exec "$@"`, home}
}

// fleet is a gateway with many servers.
type fleet struct {
	*world
	gateway *Gateway
	program string // of each server
	servers int
	late    int // those that had to start before there was a watcher
}

// startFleet starts a gateway, and n servers of it.
func startFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{world: newWorld(t), program: filepath.Join(t.TempDir(), "cat-mcp")}
	if err := escape.WriteProgram(f.program, "#!/bin/sh\nexec cat\n"); err != nil {
		t.Fatal(err)
	}
	limited := f.configured(f.program, `ulimit -Sn 1024`)
	// without flags it starts before the Go runtime, which would raise the limit
	f.gateway = f.start(append(limited, binaries.mcpscope, "gateway", binaries.like))
	const atATime = 100 // each answer is waited for
	for first := 0; first < n; first += atATime {
		some := min(n-first, atATime)
		if got := f.add(fmt.Sprint("first-", first), some); got != some {
			t.Fatalf("%d of %d servers are contained", got, some)
		}
	}
	f.servers = n
	f.wantAll("before a kill")
	return f
}

// add starts n servers more, and returns how many are contained.
func (f *fleet) add(name string, n int) (contained int) {
	f.T.Helper()
	f.gateway.Tell("many %s %d %s", name, n, f.program)
	answer := f.gateway.Expect("many")
	if _, err := fmt.Sscan(answer, &contained); err != nil || strings.TrimSpace(answer) != fmt.Sprint(contained) {
		f.T.Fatalf("%s: %s", name, answer)
	}
	return contained
}

// wantAll fails the test unless all servers are there, answer, and are in groups.
func (f *fleet) wantAll(when string) {
	f.T.Helper()
	f.gateway.Tell("all")
	got := strings.TrimSpace(f.gateway.Expect("all"))
	if want := fmt.Sprint(f.servers, f.servers, f.servers-f.late); got != want {
		f.T.Fatalf("%s: of all servers %s are there, answer, and are in groups; want %s", when, got, want)
	}
}

// wantNew fails the test unless a new server is contained. The guard executes all programs if the watcher takes more
// than a second, which a busy machine may need.
func (f *fleet) wantNew(when string) {
	f.T.Helper()
	again := pace.Eventually(escape.Patience, func() bool {
		got := f.add(fmt.Sprint("later", f.servers, "-"), 1)
		f.servers++
		f.late += 1 - got
		return got == 1
	})
	if !again {
		f.T.Fatalf("%s: new servers are not contained", when)
	}
}

// wantNoneLeft ends the gateway by SIGKILL, and fails the test for all that is left.
func (f *fleet) wantNoneLeft() {
	f.T.Helper()
	f.gateway.Own.Signal(unix.SIGKILL)
	f.clean()
	for _, p := range f.members() {
		f.T.Errorf("it is left: %s", escape.Describe(p.PID))
	}
}

// Watcher or guard is killed at random moments, one at a time, while the gateway executes programs: no execve fails, all
// servers stay, and nothing is left after the gateway.
func TestKillsAtRandomBesideManyServers(t *testing.T) {
	servers := 20
	kills := 6
	if escape.Full() {
		servers = 200
		kills = 60
	}
	f := startFleet(t, servers)
	for i := range kills {
		f.gateway.Tell("times 40 /bin/true")
		time.Sleep(rand.N(60 * time.Millisecond)) // about as long as these take
		what := "watcher"
		find := f.watchers
		if rand.IntN(2) == 0 {
			what = "guard"
			find = f.guards
		}
		f.kill(find)
		when := fmt.Sprintf("after kill %d, of a %s", i, what)
		if failed := f.gateway.Expect("times"); failed != "0 <nil>" {
			t.Errorf("%s: %s of 40 programs could not be executed", when, failed)
		}
		f.wantAll(when)
		f.awaitBoth(when)
	}
	f.wantNew("at the end")
	f.wantAll("at the end")
	f.wantNoneLeft()
}

// awaitBoth waits until a guard has a watcher of its own.
func (f *fleet) awaitBoth(when string) {
	f.T.Helper()
	if !pace.Eventually(escape.Patience, func() bool {
		parent := fmt.Sprintf("PPid=%d ", f.await(f.guards).PID)
		return strings.Contains(escape.Describe(f.await(f.watchers).PID), parent)
	}) {
		f.T.Fatalf("%s: the guard has no watcher of its own", when)
	}
}

// Watcher and guard can be killed in turn beside any number of servers: all of these go on, no execve fails,
// and new servers are contained. The servers have few descriptors in both.
func TestKillsBesideManyServers(t *testing.T) {
	f := startFleet(t, many)
	for i, find := range []func() []*escape.Process{f.watchers, f.guards, f.watchers, f.guards} {
		when := fmt.Sprintf("after kill %d", i)
		f.kill(find)
		f.wantAll(when)
		f.wantNew(when)
		f.wantAll(when + " and a new server")
	}
	for what, c := range map[string]struct {
		find func() []*escape.Process
		most int
	}{"guard": {f.guards, 4}, "watcher": {f.watchers, 6}} {
		p := f.await(c.find)
		files := -1
		const own = 64
		if !pace.Eventually(escape.Patience, func() bool { // it closes some when a server has begun
			all, err := escape.OpenFiles(p.PID)
			files = len(all)
			return err == nil && files <= c.most*f.servers+own
		}) {
			t.Errorf("the %s has %d descriptors for %d servers, want %d for each", what, files, f.servers, c.most)
		}
	}
	if text := escape.Contents(f.gateway.Stderr); text != "" {
		t.Errorf("stderr: %s", text)
	}
	pids, err := escape.GroupPids(escape.Servers(f.slice(), "*", "*")[0])
	if err != nil || len(pids) == 0 {
		t.Fatalf("no member: %v", err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pids[0]))
	if !regexp.MustCompile("Max open files +1024 ").Match(limits) {
		t.Errorf("a server's limits are not its gateway's: %s (%v)", limits, err)
	}
	f.run("sweep")
	f.wantAll("after a sweep")
	f.wantNoneLeft()
}

// With a hard limit that is too low some servers are not contained, and that is said where no one has asked
// for explanations. The others are.
func TestServersBeyondTheHardLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program := filepath.Join(t.TempDir(), "cat-mcp")
	if err := escape.WriteProgram(program, "#!/bin/sh\nexec cat\n"); err != nil {
		t.Fatal(err)
	}
	limited := w.configured(program, `ulimit -n 256`)
	g := w.start(append(limited, binaries.mcpscope, "gateway", binaries.like))
	const n = 60
	g.Tell("many a %d %s", n, program)
	all := 0
	if text := g.Expect("many"); strings.TrimSpace(text) == "" {
		t.Fatal("it says nothing")
	} else if _, err := fmt.Sscan(text, &all); err != nil || all == 0 || all == n || strings.TrimSpace(text) != fmt.Sprint(all) {
		t.Fatalf("contained, and errors: %s, of %d", text, n)
	}
	if text := escape.Contents(g.Stderr); text != "" {
		t.Errorf("the gateway's stderr is its own, and has %q", text)
	}
	w.kill(w.watchers)
	w.await(w.watchers)
	want := fmt.Sprintf("of like[%d] not contained: ", g.PID)
	if notes := w.notes("ls"); !strings.Contains(notes, want) || !strings.Contains(notes, "RLIMIT_NOFILE is 256") {
		t.Errorf("ls notes %q, want %q", notes, want)
	}
	if metrics := w.run("metrics"); strings.Contains(metrics, "mcpscope_uncontained_servers 0") {
		t.Errorf("metrics say that all servers are contained: %s", metrics)
	}
	g.Tell("all")
	got := g.Expect("all")
	want = fmt.Sprint(n, n, all)
	if strings.TrimSpace(got) != want {
		t.Errorf("after a kill: of all servers %s are there, answer, and are in groups; want %s", got, want)
	}
	_ = os.Remove(program) // no server is to start any more
	g.Own.Signal(unix.SIGKILL)
	w.clean()
}
