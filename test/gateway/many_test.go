// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

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

// Watcher and guard can be killed in turn beside any number of servers: all of these go on, no execve fails,
// and new servers are contained. The servers have few descriptors in both.
func TestKillsBesideManyServers(t *testing.T) {
	w := newWorld(t)
	program := filepath.Join(t.TempDir(), "cat-mcp")
	if err := escape.WriteProgram(program, "#!/bin/sh\nexec cat\n"); err != nil {
		t.Fatal(err)
	}
	limited := w.configured(program, `ulimit -Sn 1024`)
	// without flags it starts before the Go runtime, which would raise the limit
	g := w.start(append(limited, binaries.mcpscope, "gateway", binaries.like))
	contained := func(name string, n int) int {
		t.Helper()
		g.Tell("many %s %d %s", name, n, program)
		answer := g.Expect("many")
		got := 0
		if _, err := fmt.Sscan(answer, &got); err != nil || strings.TrimSpace(answer) != fmt.Sprint(got) {
			t.Fatalf("%s: %s", name, answer)
		}
		return got
	}
	const atATime = 100 // each answer is waited for
	for first := 0; first < many; first += atATime {
		if got := contained(fmt.Sprint("first-", first), atATime); got != atATime {
			t.Fatalf("%d of %d servers are contained", got, atATime)
		}
	}
	servers := many
	late := 0 // those that had to start before there was a watcher
	stay := func(when string) {
		t.Helper()
		g.Tell("all")
		if got, want := g.Expect("all"), fmt.Sprint(servers, servers, servers-late); strings.TrimSpace(got) != want {
			t.Fatalf("%s: of all servers %s are there, answer, and are in groups; want %s", when, got, want)
		}
	}
	stay("before a kill")
	for i, find := range []func() []*escape.Process{w.watchers, w.guards, w.watchers, w.guards} {
		when := fmt.Sprintf("after kill %d", i)
		w.kill(find)
		stay(when)
		// the guard executes all programs if the watcher takes more than a second, which a busy machine may need
		again := pace.Eventually(escape.Patience, func() bool {
			got := contained(fmt.Sprint("later", servers, "-"), 1)
			servers++
			late += 1 - got
			return got == 1
		})
		if !again {
			t.Fatalf("%s: new servers are not contained", when)
		}
		stay(when + " and a new server")
	}
	for what, c := range map[string]struct {
		find func() []*escape.Process
		most int
	}{"guard": {w.guards, 4}, "watcher": {w.watchers, 6}} {
		p := w.await(c.find)
		files := -1
		const own = 64
		if !pace.Eventually(escape.Patience, func() bool { // it closes some when a server has begun
			all, err := escape.OpenFiles(p.PID)
			files = len(all)
			return err == nil && files <= c.most*servers+own
		}) {
			t.Errorf("the %s has %d descriptors for %d servers, want %d for each", what, files, servers, c.most)
		}
	}
	if text := escape.Contents(g.Stderr); text != "" {
		t.Errorf("stderr: %s", text)
	}
	pids, err := escape.GroupPids(escape.Servers(w.slice(), "*", "*")[0])
	if err != nil || len(pids) == 0 {
		t.Fatalf("no member: %v", err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pids[0]))
	if !regexp.MustCompile("Max open files +1024 ").Match(limits) {
		t.Errorf("a server's limits are not its gateway's: %s (%v)", limits, err)
	}
	w.run("sweep")
	stay("after a sweep")
	g.Own.Signal(unix.SIGKILL)
	w.clean()
	for _, p := range w.members() {
		t.Errorf("it is left: %s", escape.Describe(p.PID))
	}
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
