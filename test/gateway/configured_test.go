// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// What a configuration has is a server, by its whole command line, and has the name that it has there: also
// a shell script, which is none otherwise, and one that a tool starts. The same with another argument is not.
func TestConfigured(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	script := filepath.Join(home, "start")
	one, two := escape.NewMembers(t), escape.NewMembers(t)
	t.Cleanup(two.Kill)
	config := map[string]any{"mcpServers": map[string]any{"my own": map[string]any{
		"command": script, "args": []string{binaries.Zoo, "--register", one.Address, "setsid"},
	}}}
	text, err := json.Marshal(config)
	if err == nil {
		err = os.Mkdir(filepath.Join(home, ".cursor"), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(home, ".cursor", "mcp.json"), text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(script, []byte("#!/bin/sh\n\"$@\"\nexit\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	g := w.start([]string{"env", "HOME=" + home, binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain, "--", binaries.like})
	for name, m := range map[string]*escape.Members{"one": one, "two": two} {
		g.Tell("%s %s %s %s --register %s setsid", map[string]string{"one": "server", "two": "quiet"}[name], name, script, binaries.Zoo, m.Address)
		g.Expect("server " + name)
		if err := m.UntilReady(escape.Patience); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{Members: one, Name: "one"}
	s.Main, _ = one.Main()
	w.contained(s)
	if out := w.run("ls", "--format", "{{.Name}}"); strings.Count(out, "my own\n") != 1 || strings.Contains(out, "zoo") {
		t.Errorf("ls says %q", out)
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
	if len(two.Running()) == 0 {
		t.Error("what is not configured is dead")
	}
}

// A server that listens is known by its configuration; one that nobody has configured is named, and left.
func TestListening(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	config := filepath.Join(home, "own.json")
	err := os.WriteFile(config, []byte(`{"mcpServers": {"web": {"command": "/bin/sleep", "args": ["1000"], "type": "streamable-http", "url": "http://localhost:1/mcp"}}}`), 0o600)
	if err == nil {
		err = os.Symlink("/bin/sleep", filepath.Join(home, "mcp-other"))
	}
	if err != nil {
		t.Fatal(err)
	}
	g := w.gateway("--config", config)
	server, other := g.Tool("listen /bin/sleep 1000"), g.Tool("listen "+filepath.Join(home, "mcp-other")+" 1000")
	if path, err := bed.ProcessPath(server.PID); err != nil || !strings.Contains(path, "/mcp-web-") {
		t.Errorf("what is configured is in %s (%v)", path, err)
	}
	if path, err := bed.ProcessPath(other.PID); err != nil || path != mustPath(t, g.PID) {
		t.Errorf("what is not is in %s (%v)", path, err)
	}
	deadline := time.Now().Add(escape.Patience)
	for out := ""; !strings.Contains(out, "left: mcp-other, once: it is not spoken to on stdin"); out = w.run("ls", "--gateways") {
		if time.Now().After(deadline) {
			t.Fatalf("ls --gateways says %q", out)
		}
	}
	g.Own.Signal(unix.SIGKILL)
	if !server.Ended(escape.Patience) {
		t.Error("the server is left")
	}
	lives(t, "what was left alone", other)
	w.clean()
}

// Settings of a server are those of its name in mcpscope.toml, read when it is started; what the gateway's flags say
// counts more.
func TestSettingsFromAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[defaults]\nterm-grace = '700ms'\nmax-lifetime = '1h'\nbackend = 'tree'\nreport = '/nowhere'\n[server.'zo*']\neof-grace = '3s'\nidle-timeout = '2h'\nnonsense = 1\n")
	g := w.start([]string{"env", "MCPSCOPE_CONFIG=" + file, binaries.mcpscope, "gateway", "--idle-timeout", "5h", "--explain", w.explain, "--", binaries.like, "gateway", "run"})
	if text := escape.Contents(g.Stderr); !strings.Contains(text, "mcpscope: note: configuration: ") || !strings.Contains(text, "nonsense") {
		t.Errorf("what is wrong with the file is not said: %q", text)
	}
	policies := func() string { return w.run("ls", "--client", itoa(g.PID), "--format", "{{.Backend}} {{.Policy}}") }
	one := g.Server(binaries.Programs, "one", "setsid")
	w.contained(one)
	if got, want := policies(), "cgroup eof-grace=3s term-grace=700ms on-client-death=auto max-lifetime=1h0m0s idle-timeout=5h0m0s\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	write("[server.zoo]\nterm-grace = '900ms'\n")
	two := g.Server(binaries.Programs, "two", "setsid")
	w.contained(two)
	if got, want := policies(), "cgroup eof-grace=1.2s term-grace=900ms on-client-death=auto idle-timeout=5h0m0s\n"; !strings.HasSuffix(got, want) {
		t.Errorf("%q has no %q", got, want)
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(one)
	w.dead(two)
	w.clean()
}
