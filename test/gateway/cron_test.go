// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Cases from the field, with gateways that know nothing of mcpscope.

// Each tick of a job starts a server in a session of its own, and is cancelled or crashes: the gateway ends what it
// knows of, by process group. A chat and a job beside them are not to notice.
func TestCronJobs(t *testing.T) {
	t.Parallel()
	ticks := 10
	if escape.Full() {
		ticks = 100
	}
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--eof-grace", "300ms", "--term-grace", "300ms")
	chat := g.Server(binaries.Programs, "chat", "setsid")
	job := g.Server(binaries.Programs, "job", "double-fork")
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
	g.Tell("sweep")
	g.Expect("swept")
	w.run("sweep")
	jobs.WantDead(t)
	for _, s := range []*Server{chat, job} {
		g.Answers(s.Name)
		if len(s.Running()) < 2 {
			t.Errorf("of the members of %s %q are left", s.Name, s.Running())
		}
	}
	g.Own.Signal(unix.SIGKILL) // a full shutdown takes all
	chat.Gone(t)
	job.Gone(t)
	w.clean()
}

// A client hangs up as soon as it has spoken: the server ends while it gets its guard.
func TestHungUpAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--eof-grace", "300ms", "--term-grace", "300ms")
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
	members.WantDead(t)
	g.Own.Signal(unix.SIGKILL)
	w.clean()
}

// A client kills its runtime with no grace, and the runners of its servers keep those alive.
func TestRuntimeKilled(t *testing.T) {
	dir := clients(t)
	const count = 3
	server := filepath.Join(dir, "node/node_modules/@modelcontextprotocol/server-memory/dist/index.js")
	runner := filepath.Join(t.TempDir(), "uvx") // a runner is known by its name
	if err := os.Symlink(filepath.Join(dir, "bin/uvxlike"), runner); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	g := w.start(w.line([]string{filepath.Join(dir, "bin/tsgateway")}))
	for i := range count {
		g.Tell("server %d %s node %s", i, runner, server)
	}
	for i := range count {
		g.Expect(fmt.Sprint("server ", i))
	}
	tool := g.Tool("tool")
	servers := w.members()
	if len(servers) != 2*count {
		t.Errorf("%d processes in groups, want %d runners and %[2]d servers", len(servers), count)
	}
	g.Own.Signal(unix.SIGKILL)
	escape.WantEnded(t, servers...)
	w.clean()
	Lives(t, "what a tool has left", tool)
}

// Clients of four SDKs as gateways: a published server behind npx works, and nothing of it is
// left when they close it, or are killed.
func TestRealClients(t *testing.T) {
	dir := clients(t)
	for _, client := range []string{"tssdk", "gosdk", "mcpgo", "pythonlike"} {
		for _, end := range []string{"closed", "killed"} {
			t.Run(client+"/"+end, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				line := append([]string{"env", "-C", filepath.Join(dir, "node"), "HOME=" + t.TempDir(), "npm_config_update_notifier=false"},
					w.line([]string{filepath.Join(dir, "bin", client), "--", "npx", "-y", "@modelcontextprotocol/server-everything"})...)
				cmd := w.Command(line...)
				k := escape.StartTalk(t, cmd, func() error { return escape.StartIn(w.Unique("client"), cmd) })
				var hello struct {
					Tools int
					Call  string
				}
				if err := json.NewDecoder(bufio.NewReader(k.Out)).Decode(&hello); err != nil || hello.Tools == 0 || hello.Call != "ok" {
					t.Errorf("it says %+v (%v); stderr: %s", hello, err, k.Said())
				}
				members := w.members()
				if len(members) < 2 {
					t.Errorf("%d processes in groups, want npx and its server", len(members))
				}
				if end == "closed" {
					k.Tell("close")
				} else {
					_ = cmd.Process.Kill()
				}
				escape.WantEnded(t, members...)
				w.clean()
			})
		}
	}
}
