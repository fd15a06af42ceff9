// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
)

// A server is recognized by its client's first bytes, by a configuration, by --match, or by an earlier start.

// bystanders are programs that are started with pipes but do not receive MCP. They receive said right after
// their start, and read so many lines.
var bystanders = []struct {
	what, said string
	lines      int
}{
	{"nothing", "", 0},
	{"a filter", "one\ntwo\n", 2},
	{"a node worker", `{"type":"work","id":1}` + "\n", 1},
	{"a language server", "Content-Length: 58\r\n\r\n" + `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}` + "\n", 3},
	{"one by line", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"processId":1,"rootUri":null,"capabilities":{}}}` + "\n", 1},
	{"an agent in ACP", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}` + "\n", 1},
	{"an agent in ACP 2", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"clientInfo":{"name":"x"}}}` + "\n", 1},
	{"an agent's stream", `{"type":"control_request","request":{"subtype":"mcp_message","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}}` + "\n", 1},
}

// Programs that are not servers are not taken, and their background processes live. A later server is taken.
func TestBystanders(t *testing.T) {
	w := newWorld(t)
	scripts := t.TempDir()
	g := w.gateway()
	for _, kind := range []string{"pipes", "sockets"} {
		g.Uses(kind)
		for i, b := range bystanders {
			said := filepath.Join(scripts, fmt.Sprint(i))
			if err := os.WriteFile(said, []byte(b.said), 0o600); err != nil {
				t.Fatal(err)
			}
			g.Tell("written %s head -n %d", said, b.lines)
			if rest := g.Expect("written"); rest != "<nil>" {
				t.Errorf("%s over %s: %s", b.what, kind, rest)
			}
		}
	}
	shell := g.Tool("shell x")
	taken := func(want int) {
		t.Helper()
		if text, err := os.ReadFile(w.explain); strings.Count(string(text), takenAs) != want || err != nil {
			t.Fatalf("more than %d were captured, or fewer: %s (%v)", want, text, err)
		}
	}
	taken(0)
	s := g.Unnamed(t.TempDir(), binaries.Programs, "a", "setsid")
	w.contained(s)
	taken(1) // whatever was to be captured before it is by now
	if path := mustPath(t, shell.PID); path != mustPath(t, g.PID) {
		t.Errorf("what a shell has left is in %s", path)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	Lives(t, "what a shell has left", shell)
	w.clean()
}

// A configured command line is a server, and has its name from the configuration: also a shell script, which
// is not a server otherwise, a program that a tool starts, and one that listens. The same with another
// argument is not.
func TestConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	script := filepath.Join(home, "start")
	one := escape.NewMembers(t)
	config := map[string]any{
		"my own": map[string]any{"command": script, "args": []string{binaries.Zoo, "--register", one.Address, "setsid"}},
		"web":    map[string]any{"command": "/bin/sleep", "args": []string{"1000"}, "type": "streamable-http", "url": "http://localhost:1/mcp"},
	}
	text, err := json.Marshal(map[string]any{"mcpServers": config})
	if err = errors.Join(err, os.Mkdir(home+"/.cursor", 0o700), os.WriteFile(home+"/.cursor/mcp.json", text, 0o600),
		escape.WriteProgram(script, "#!/bin/sh\n\"$@\"\nexit\n")); err != nil {
		t.Fatal(err)
	}
	g := w.start(append([]string{"env", "HOME=" + home}, w.line([]string{binaries.like})...))
	listening := g.Tool("listen /bin/sleep 1000")
	inheriting := g.Tool("inherit /bin/sleep 1000")
	other := g.Tool("listen /bin/sleep 1001")
	if path := mustPath(t, listening.PID); !strings.Contains(path, "/mcp-web-") {
		t.Errorf("what is configured and listens is in %s", path)
	}
	if path := mustPath(t, other.PID); path != mustPath(t, g.PID) {
		t.Errorf("what is not is in %s", path)
	}
	g.Tell("quiet one %s %s --register %s setsid", script, binaries.Zoo, one.Address)
	g.Expect("server one")
	if err := one.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	two := g.Born("quiet", "two", script+" "+binaries.Zoo, "setsid")
	s := &Server{Members: one, Name: "one"}
	s.Main, _ = one.Main()
	w.contained(s)
	if out := w.run("ls", "--json", "--client", fmt.Sprint(g.PID)); strings.Count(out, `"name": "my own"`) != 1 || strings.Contains(out, "zoo") {
		t.Errorf("ls says %q", out)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	escape.WantEnded(t, listening, inheriting)
	w.clean()
	Lives(t, "what is not configured", other)
	if len(two.Running()) == 0 {
		t.Error("the script that is not configured is dead")
	}
}

// Settings of a server are those of its name in mcpscope.toml; the gateway's flags win over them. It is
// listed like any other, with the gateway as its client, by which it is stopped.
func TestListedWithSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	text := "[defaults]\nterm-grace = '700ms'\nbackend = 'tree'\non-client-death = 'ignore'\n[server.'zo*']\neof-grace = '3s'\nidle-timeout = '2h'\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	g := w.start(append([]string{"env", "MCPSCOPE_CONFIG=" + file}, w.line([]string{binaries.like}, "--idle-timeout", "5h", "--match", "zoo")...))
	s := g.Server(binaries.Programs, "one", "setsid")
	var listed struct {
		Servers []struct {
			ID, Name, State, Policy string
			Client                  struct{ Name string }
			Processes               int
		}
	}
	out := w.run("ls", "--client", fmt.Sprint(g.PID), "--json")
	if err := json.Unmarshal([]byte(out), &listed); err != nil {
		t.Fatal(err)
	}
	const want = "[{%s zoo running eof-grace=3s term-grace=700ms on-client-death=auto idle-timeout=5h0m0s {like} 2}]"
	if got := fmt.Sprint(listed.Servers); got != fmt.Sprintf(want, s.ID) {
		t.Errorf("ls says %s", got)
	}
	w.run("stop", "--client", fmt.Sprint(g.PID))
	s.Gone(t)
	w.clean()
	Lives(t, "the gateway", g.Own)
}

// The rules in a user's file are those of a gateway without flags and variables, which would start before the
// Go runtime: nothing is written to either server, so that no other rule finds it.
func TestRulesInAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := t.TempDir()
	text := fmt.Sprintf("[defaults]\nmatch = ['%s *']\nexcept = ['* --register * setsid']\n", binaries.Zoo)
	err := os.Mkdir(filepath.Join(config, "mcpscope"), 0o700)
	if err = errors.Join(err, os.WriteFile(filepath.Join(config, "mcpscope", "mcpscope.toml"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	g := w.start([]string{"env", "XDG_CONFIG_HOME=" + config, binaries.mcpscope, "gateway", "--", binaries.like})
	s := g.Born("quiet", "one", binaries.Zoo, "double-fork")
	w.contained(s)
	left := g.Born("quiet", "two", binaries.Zoo, "setsid")
	if path := mustPath(t, left.Main.PID); path != mustPath(t, g.PID) {
		t.Errorf("the exception is in %s", path)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
	if len(left.Running()) == 0 {
		t.Error("the exception is dead")
	}
}

// A gateway whose servers are wrapped one by one has each of them in one group, not in two. And a gateway
// inside another one runs, while the outer one has its servers.
func TestInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start(w.line([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--", binaries.like}, "--match", "zoo"))
	s := g.Server(binaries.Programs, "a", "setsid")
	w.contained(s)
	wrapped := g.Born("server", "wrapped", binaries.mcpscope+" run --backend cgroup --name wrapped -- "+binaries.Zoo, "setsid")
	w.contained(wrapped)
	if all := escape.Servers(w.slice(), "*", "*"); len(all) != 2 {
		t.Errorf("groups: %q, want one for each", all)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	wrapped.Gone(t)
	w.clean()
}

// A client that connects again starts the same command: that is captured before it runs, even if its client
// writes nothing.
func TestStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	script := filepath.Join(t.TempDir(), "server")
	if err := escape.WriteProgram(script, slow); err != nil {
		t.Fatal(err)
	}
	members := escape.NewMembers(t) // one address for both: what is known is the command line
	t.Cleanup(members.Kill)
	for i, how := range []string{"server", "quiet"} {
		g.Tell("%s %d %s %s --register %s setsid", how, i, script, binaries.Zoo, members.Address)
		if !members.AwaitBorn(2*(i+1), escape.Patience) {
			t.Fatalf("server %d was not taken", i)
		}
	}
	if all := escape.Servers(w.slice(), "*", "*"); len(all) != 2 {
		t.Errorf("groups: %q, want one for each", all)
	}
	g.Own.Signal(unix.SIGKILL)
	members.WantDead(t)
	w.clean()
}

// Another user makes a group with the id of root's server, which stands in the names of directories and in
// /proc/PID/limits. Root's commands on that user's group must not reach root's server.
func TestForgedGroupWithTheIDOfAServer(t *testing.T) {
	t.Parallel()
	const attacker = "65533"
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	s := g.Server(binaries.Programs, "a", "setsid")
	delegated := w.Unique("delegated")
	if err := bed.Delegate(delegated, 65533); err != nil {
		t.Fatal(err)
	}
	forged := filepath.Join(delegated, "mcp-evil-"+s.ID)
	cmd := w.Command("setpriv", "--reuid", attacker, "--regid", attacker, "--clear-groups", "mkdir", "-m", "700", w.Seen(forged))
	if o, err := escape.Finish(delegated, cmd); err != nil || o.Status != 0 {
		t.Fatalf("the attacker: %v, %v: %s", o.Status, err, o.Stderr)
	}
	facts.Set(t, forged, func(f *protocol.Facts) { f.Name, f.Started = "forged", 1 })
	w.run("stop", "--all-users", "--grace", "0", "forged")
	w.run("sweep", "--all-users")
	if n := len(s.Running()); n != 2 {
		t.Errorf("%d members live, want 2", n)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}

// Below a gateway a server runs without a limit that the host does not have. That is said where people look.
func TestMissingLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(file, []byte("[defaults]\nmemory-max = '300M'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := w.line([]string{binaries.like}, "--match", "zoo")
	g := w.start(append([]string{"env", "MCPSCOPE_CONFIG=" + file}, line...))
	s := g.Server(binaries.Programs, "one", "setsid")
	_, err := os.Stat(filepath.Join(s.Group, "memory.max"))
	hasLimit := err == nil
	if notes := w.notes("ls"); strings.Contains(notes, "servers run without a limit: ") == hasLimit {
		t.Errorf("ls notes %q; the host has limits of memory: %v", notes, hasLimit)
	}
	if said := w.doctor(); strings.Contains(said, "servers run without a limit: ") == hasLimit {
		t.Errorf("doctor says %q", said)
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}
