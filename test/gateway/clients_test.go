// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// clients is where test/e2e/clients/setup has put them.
func clients(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("TEST_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	dir, err := filepath.Abs(filepath.Join(cache, "clients"))
	if err != nil {
		t.Fatal(err)
	}
	missing := func() error {
		_, binErr := os.Stat(filepath.Join(dir, "bin"))
		_, nodeErr := os.Stat(filepath.Join(dir, "node"))
		return errors.Join(binErr, nodeErr)
	}
	if err := missing(); err != nil && os.Getenv("CI") != "" {
		t.Fatalf("run test/e2e/clients/setup first: %v", err)
	}
	bed.Require(t, bed.Feature{Name: "the test clients, by test/e2e/clients/setup", Missing: missing})
	return dir
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
				line := []string{"sh", "-c", `cd "$0" && exec "$@"`, filepath.Join(dir, "node"), binaries.mcpscope, "gateway", "--backend", "cgroup",
					"--explain", w.explain, "--", filepath.Join(dir, "bin", client), "--", "npx", "-y", "@modelcontextprotocol/server-everything"}
				cmd := w.Command(line...)
				cmd.Env = append(cmd.Env, "HOME="+t.TempDir(), "npm_config_update_notifier=false")
				stderr, err := escape.OpenMemory("stderr")
				if err != nil {
					t.Fatal(err)
				}
				defer stderr.Close()
				cmd.Stderr = stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := escape.StartIn(w.Unique("client"), cmd); err != nil {
					t.Fatal(err)
				}
				timer := time.AfterFunc(2*escape.Patience, func() { _ = cmd.Process.Kill() })
				defer timer.Stop()
				var hello struct {
					Tools int
					Call  string
				}
				if err := json.NewDecoder(bufio.NewReader(out)).Decode(&hello); err != nil || hello.Tools == 0 || hello.Call != "ok" {
					t.Errorf("it says %+v (%v); stderr: %s", hello, err, escape.Contents(stderr))
				}
				members := w.members()
				if len(members) < 2 {
					t.Errorf("%d processes in groups, want npx and its server", len(members))
				}
				if end == "closed" {
					_, _ = in.Write([]byte("close\n")) // EPIPE shows as a client that has ended
				} else {
					_ = cmd.Process.Kill()
				}
				_ = cmd.Wait() // killed, or with the status of a client
				for _, p := range members {
					if !p.Ended(escape.Patience) {
						t.Errorf("left: %s", escape.Describe(p.PID))
					}
				}
				w.clean()
				if text, err := os.ReadFile(w.explain); strings.Count(string(text), " taken as ") != 1 || err != nil {
					t.Errorf("explained (%v):\n%s", err, text)
				}
			})
		}
	}
}

// members are all that are in groups of servers.
func (w *world) members() []*escape.Process {
	w.T.Helper()
	var all []*escape.Process
	for _, dir := range escape.Servers(w.slice(), "*", "*") {
		pids, err := escape.GroupPids(filepath.Join(dir, "payload"))
		if err != nil {
			w.T.Error(err)
		}
		for _, pid := range pids {
			if p, err := escape.OpenProcess(pid); err == nil { // otherwise it has ended since
				w.T.Cleanup(p.Close)
				all = append(all, p)
			}
		}
	}
	return all
}

// A gateway on the TypeScript SDK: of two servers behind npx one is closed, and the other works on.
func TestNodeGateway(t *testing.T) {
	dir := clients(t)
	w := newWorld(t)
	g := w.start([]string{"env", "-C", filepath.Join(dir, "node"), "HOME=" + t.TempDir(), binaries.mcpscope, "gateway", "--backend", "cgroup",
		"--explain", w.explain, "--", filepath.Join(dir, "bin/tsgateway")})
	g.Tell("server one npx -y @modelcontextprotocol/server-everything")
	g.Expect("server one")
	one := w.members()
	g.Tell("server two npx -y @modelcontextprotocol/server-memory")
	g.Expect("server two")
	all, tool := w.members(), g.Tool("tool")
	if len(one) < 2 || len(all) < len(one)+2 {
		t.Errorf("%d processes, and %d of both; want npx and its server each", len(one), len(all))
	}
	g.Tell("close one")
	g.Expect("closed one")
	for _, p := range one {
		if !p.Ended(escape.Patience) {
			t.Errorf("left: %s", escape.Describe(p.PID))
		}
	}
	g.Tell("ask two")
	g.Expect("answer two")
	g.Tell("exit 0")
	for _, p := range all {
		if !p.Ended(escape.Patience) {
			t.Errorf("left: %s", escape.Describe(p.PID))
		}
	}
	w.clean()
	lives(t, "what a tool has left", tool)
}
