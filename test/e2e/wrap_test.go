// SPDX-License-Identifier: Apache-2.0

// The promise of wrap: nothing of a configuration is lost, nothing but commands and arguments is different,
// and unwrap gives the old file back to the byte.
package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A home is one of the test's own, with the files of clients in it.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{t, t.TempDir()}
	h.write("project/.keep", "")
	return h
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

func (h *home) write(name, text string) string {
	h.t.Helper()
	path := h.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		h.t.Fatal(err)
	}
	return path
}

func (h *home) wantText(name, want string) {
	h.t.Helper()
	if got, err := os.ReadFile(h.path(name)); err != nil || string(got) != want {
		h.t.Errorf("%s is %.200q (%v), want %.200q", name, got, err, want)
	}
}

// backup is where the old content of a file is kept.
func (h *home) backup(name string) string {
	return filepath.Join(".local/state/mcpscope/backups", h.path(name))
}

func (h *home) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binaries.mcpscope, args...)
	cmd.Dir = h.path("project")
	cmd.Env = []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// run fails the test if the command does not end with that status.
func (h *home) run(status int, args ...string) (out string) {
	h.t.Helper()
	cmd := h.command(args...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		h.t.Fatalf("%q: %v, want status %d: %s", args, err, status, text)
	}
	return string(text)
}

// wrap names the program, for that of the tests is where no file stays.
func (h *home) wrap(status int, args ...string) string {
	h.t.Helper()
	return h.run(status, append([]string{"wrap", "--program", binaries.mcpscope}, args...)...)
}

const oneServer = `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"KEY": "hunter2"}}}}`

func wrapped(config string) string {
	return strings.NewReplacer(`"uvx"`, `"`+binaries.mcpscope+`"`, `["mcp`, `["run", "--name", "time", "--", "uvx", "mcp`).Replace(config)
}

// Without a word from somebody nothing is changed.
func TestWrapAsksFirst(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	if out := h.wrap(1); !strings.Contains(out, "  - uvx (1 argument)\n  + "+binaries.mcpscope+" run --name time -- uvx (1 argument)\n") ||
		!strings.HasSuffix(out, "mcpscope: cannot wrap: nobody has confirmed it\nmcpscope: hint: --yes\n") {
		t.Errorf("%s", out)
	}
	h.wrap(0, "--dry-run")
	h.wantText(".cursor/mcp.json", oneServer)
	for _, answer := range []string{"\n", "no\n", "\x04"} {
		h.onTerminal(answer, func() {})
		h.wantText(".cursor/mcp.json", oneServer)
	}
	h.onTerminal("y\n", func() {})
	h.wantText(".cursor/mcp.json", wrapped(oneServer))
}

// A file that its program writes while somebody thinks the question over stays as that has left it.
func TestWrapLosesNobodysWork(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	theirs := strings.Replace(oneServer, "uvx", "npx", 1)
	said := h.onTerminal("y\n", func() { h.write(".cursor/mcp.json", theirs) })
	if !strings.Contains(said, "another program has changed it meanwhile") {
		t.Errorf("%s", said)
	}
	h.wantText(".cursor/mcp.json", theirs)
}

// onTerminal answers the question, after meanwhile, and returns what was on the terminal.
func (h *home) onTerminal(answer string, meanwhile func()) string {
	h.t.Helper()
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	master := os.NewFile(uintptr(m), "master")
	defer master.Close()
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		h.t.Fatal(err)
	}
	s, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		h.t.Fatal(errno)
	}
	slave := os.NewFile(s, "slave")
	cmd := h.command("wrap", "--program", binaries.mcpscope)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	err = cmd.Start()
	slave.Close()
	if err != nil {
		h.t.Fatal(err)
	}
	_ = master.SetReadDeadline(time.Now().Add(20 * time.Second)) // a pty has deadlines
	var said []byte
	for asked := false; ; {
		chunk := make([]byte, 4096)
		n, err := master.Read(chunk)
		said = append(said, chunk[:n]...)
		if err != nil {
			break // EIO: the terminal is nobody's
		}
		if !asked && bytes.HasSuffix(said, []byte("Change 1 file? [y/N] ")) {
			asked = true
			meanwhile()
			if _, err := master.WriteString(answer); err != nil {
				h.t.Error(err)
			}
		}
	}
	master.Close()
	_ = cmd.Wait() // its status is the answer's
	return string(said)
}

func TestWrapLeavesAlone(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		name, text string
		prepare    func(path string) error
		status     int
		want       string
	}{
		"read-only":    {".cursor/mcp.json", oneServer, func(path string) error { return os.Chmod(path, 0o400) }, 0, "time: left alone: it is read-only\nnothing to wrap\n"},
		"hard links":   {".cursor/mcp.json", oneServer, func(path string) error { return os.Link(path, path+"2") }, 0, "it has 2 names"},
		"a FIFO":       {".cursor/mcp.json", "", func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) }, 1, "it is no regular file"},
		"a plugin's":   {".claude/plugins/cache/m/p/1/.mcp.json", oneServer, nil, 0, "left alone: it belongs to a plugin"},
		"malformed":    {".cursor/mcp.json", "{\n  \"mcpServers\": {\n    \"a\": hunter2\n", nil, 1, "mcp.json: line 3, column 10: is not valid JSON\n"},
		"not UTF-8":    {".cursor/mcp.json", "{\"a\n\xff\": 1}", nil, 1, "line 2, column 1: invalid UTF-8"},
		"TOML":         {".codex/config.toml", "a = 1\na = 2\n", nil, 1, "config.toml: line 2, column 1: is not valid TOML\n"},
		"YAML":         {".hermes/config.yaml", "a: [b\nc: hunter2", nil, 1, "is not valid YAML\n"},
		"deep":         {".cursor/mcp.json", strings.Repeat("[", 30<<20), nil, 1, "has too many brackets"},
		"deep YAML":    {".hermes/config.yaml", strings.Repeat("- ", 400_000), nil, 1, "is nested too deeply"},
		"deep TOML":    {".codex/config.toml", "a = " + strings.Repeat("[", 500_000), nil, 1, "has too many brackets"},
		"huge":         {".cursor/mcp.json", `{"a": "` + strings.Repeat("x", 65<<20) + `"}`, nil, 1, "is larger than 64 MiB"},
		"twice":        {".cursor/mcp.json", `{"mcpServers": {"a": {"command": "x", "command": "y"}}}`, nil, 0, `there is more than one "command"`},
		"a whole line": {".cursor/mcp.json", `{"mcpServers": {"a": {"command": "KEY=hunter2 npx -y x"}}}`, nil, 0, "its command is a whole line"},
		"remote":       {".cursor/mcp.json", `{"mcpServers": {"a": {"url": "https://hunter2@x"}}}`, nil, 0, "it is remote"},
		"a hostile key": {".cursor/mcp.json", `{"mcpServers": {"a\u001b[2J\u202e\n": {"type": "\u001b[2J"}}}`, nil, 0,
			`a?[2J??: left alone: it is of type "\x1b[2J"`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			path := h.write(c.name, c.text)
			if c.prepare != nil {
				if err := c.prepare(path); err != nil {
					t.Fatal(err)
				}
			}
			out := h.wrap(c.status, "--yes")
			if !strings.Contains(out, c.want) || strings.Contains(out, "hunter2") || strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), raw) {
				t.Errorf("%q, want %q", out, c.want)
			}
			if what != "a FIFO" {
				h.wantText(c.name, c.text)
			}
			for _, args := range [][]string{{"status"}, {"status", "--json"}} {
				if out := h.run(c.status, args...); strings.Contains(out, "hunter2") || strings.ContainsFunc(strings.ReplaceAll(out, "\n", ""), raw) {
					t.Errorf("%q: %q", args, out)
				}
			}
		})
	}
}

func TestWrapWritesThroughLinks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("dotfiles/mcp.json", oneServer)
	h.write(".cursor/.keep", "")
	if err := os.Symlink("../dotfiles/mcp.json", h.path(".cursor/mcp.json")); err != nil {
		t.Fatal(err)
	}
	out := h.wrap(0, "--yes")
	h.wantText("dotfiles/mcp.json", wrapped(oneServer))
	h.wantText(h.backup("dotfiles/mcp.json"), oneServer)
	if to, err := os.Readlink(h.path(".cursor/mcp.json")); err != nil || to != "../dotfiles/mcp.json" {
		t.Errorf("the link is %q, %v", to, err)
	}
	if !strings.Contains(out, h.path(".cursor/mcp.json")+" -> "+h.path("dotfiles/mcp.json")) {
		t.Errorf("%s", out)
	}
}

// Everything can be uninstalled: also what was wrapped in other projects, as far as clients know them.
func TestUnwrapAllFindsProjects(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	was := map[string]string{
		"a/.mcp.json": oneServer, "b/.codex/config.toml": "[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"x\"]\n", "c/.gemini/settings.json": oneServer, "d/.qwen/settings.json": oneServer,
		"e e/.vscode/mcp.json": strings.Replace(oneServer, "mcpServers", "servers", 1), "a/.cursor/mcp.json": oneServer,
	}
	var files []string
	for name, text := range was {
		files = append(files, h.write(name, text))
	}
	h.write(".claude.json", fmt.Sprintf(`{"projects": {%q: {"mcpServers": {}}, "/nonexistent": {}, "relative": {}}}`, h.path("a")))
	h.write(".codex/config.toml", fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", h.path("b")))
	h.write(".gemini/trustedFolders.json", fmt.Sprintf(`{%q: "TRUST_FOLDER"}`, h.path("c")))
	h.write(".qwen/trustedFolders.json", fmt.Sprintf(`{%q: "TRUST_FOLDER"}`, h.path("d")))
	h.write(".config/Code/User/globalStorage/storage.json", fmt.Sprintf(`{"profileAssociations": {"workspaces": {"file://%s/e%%20e": "x", "vscode-remote://host/x": "x"}}}`, h.dir))
	h.wrap(0, append(files, "--yes")...)
	if out := h.run(0, "status"); strings.Count(out, "wrapped") != len(was) {
		t.Errorf("status: %s", out)
	}
	if out := h.wrap(0, "--yes"); !strings.Contains(out, "nothing to wrap") { // which is about here alone
		t.Errorf("wrap: %s", out)
	}
	h.run(0, "unwrap", "--all", "--yes")
	for name, text := range was {
		h.wantText(name, text)
	}
	if all, err := os.ReadDir(h.path(".local/state/mcpscope")); err != nil || len(all) > 0 {
		t.Errorf("left of the backups: %v, %v", all, err)
	}
}

// A client whose mcpscope was removed can start nothing: status says so, and unwrap repairs it.
func TestStatusOfARemovedProgram(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(".cursor/mcp.json", oneServer)
	program := h.write("bin/mcpscope", "#!/bin/sh\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	out := h.run(0, "wrap", "--program", program, "--yes")
	if want := fmt.Sprintf("Wrapped 1 server in %s (backup: %s). Restart Cursor to use it.\n", h.path(".cursor/mcp.json"), h.path(h.backup(".cursor/mcp.json"))); !strings.HasSuffix(out, want) {
		t.Errorf("%q does not end with %q", out, want)
	}
	h.run(0, "status")
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if out := h.run(1, "status"); !strings.Contains(out, "broken: "+program+" is not there; mcpscope unwrap takes it away") {
		t.Errorf("%s", out)
	}
	if out := h.run(1, "status", "--json"); !strings.Contains(out, `"state": "broken"`) {
		t.Errorf("%s", out)
	}
	h.run(0, "unwrap", "cursor", "--yes")
	h.wantText(".cursor/mcp.json", oneServer)
	h.run(0, "status")
}

// A container that is started for the server is ended with it. What is started in another one is not.
func TestWrapWarnsOfContainers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(".cursor/mcp.json", `{"mcpServers": {"a": {"command": "docker", "args": ["exec", "-i", "mcp-time", "serve"]}, "b": {"command": "sh", "args": ["-c", "exec podman start -ai x"]},
		"c": {"command": "docker-mcp", "args": ["run"]}, "d": {"command": "echo", "args": ["docker"]},
		"e": {"command": "docker", "args": ["run", "-i", "--rm", "mcp/time"]}, "f": {"command": "sh", "args": ["-c", "exec podman run x"]}}}`)
	out := h.wrap(0, "--yes")
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "d": false, "e": false, "f": false} {
		if strings.Contains(out, "warning: "+name+" runs in a container") != want {
			t.Errorf("%s: %s", name, out)
		}
	}
	if !strings.Contains(out, "Wrapped 6 servers in ") {
		t.Errorf("%s", out)
	}
}

// What others get by git is changed only when that was said.
func TestWrapWarnsOfGit(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write("project/.mcp.json", oneServer)
	for _, args := range [][]string{{"init", "-q"}, {"add", ".mcp.json"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = h.path("project")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	if out := h.wrap(1); !strings.Contains(out, "warning: git keeps this file") {
		t.Errorf("%s", out)
	}
	h.wantText("project/.mcp.json", oneServer)
	h.wrap(0, ".mcp.json", "--yes")
	h.wantText("project/.mcp.json", wrapped(oneServer))
}

func TestWrapChooses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	two := `{"mcpServers": {"a": {"command": "x", "args": []}, "b": {"command": "y", "args": []}}}`
	path := h.write("any.json", two)
	if out := h.wrap(1, path, "--server", "c", "--yes"); !strings.Contains(out, `there is no server "c"`) {
		t.Errorf("%s", out)
	}
	h.wrap(0, path, "--server", "b", "--yes")
	h.wantText("any.json", strings.Replace(two, `"y", "args": []`, `"`+binaries.mcpscope+`", "args": ["run", "--name", "b", "--", "y"]`, 1))
	if out := h.wrap(1, "codex", "--yes"); !strings.Contains(out, "Codex has no configuration here") {
		t.Errorf("%s", out)
	}
	if out := h.run(1, "wrap", path, "--yes"); !strings.Contains(out, "this mcpscope is where files do not stay") || !strings.Contains(out, "hint: install both programs") {
		t.Errorf("%s", out)
	}
	h.write("notmcpscope", "")
	for _, program := range []string{h.path("notmcpscope"), h.path("nothing"), h.dir} {
		h.run(1, "wrap", "--program", program, path, "--yes")
	}
}

func TestStatusAsJSON(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := h.write(".cursor/mcp.json", oneServer)
	h.write(".hermes/config.yaml", "mcp_servers: {a: {command: x, args: [secret], enabled: false}, b: {url: y}}")
	h.wrap(0, "cursor", "--yes")
	var got struct {
		Version int
		Files   []struct {
			Client, Path string
			Servers      []struct {
				Name, State, Reason, Command string
				Arguments                    int
				Disabled                     bool
			}
		}
	}
	out := h.run(0, "status", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Version != 1 || len(got.Files) != 2 || got.Files[0].Path != path {
		t.Fatalf("%v: %s", err, out)
	}
	if s := got.Files[0].Servers[0]; s.Name != "time" || s.State != "wrapped" || s.Command != "uvx" || s.Arguments != 1 {
		t.Errorf("%+v", s)
	}
	if s := got.Files[1].Servers; s[0].State != "bare" || !s[0].Disabled || s[1].State != "left alone" || s[1].Reason != "it is remote" {
		t.Errorf("%+v", s)
	}
	if strings.Contains(out, "secret") || strings.Contains(out, "hunter2") {
		t.Errorf("%s", out)
	}
}

// What a client starts from a wrapped configuration is in a group, under the server's name, with its own arguments.
func TestWrappedServerRunsInAGroup(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	marker := h.path("marker")
	h.write(".cursor/mcp.json", `{"mcpServers": {"a b": {"command": "sh", "args": ["-c", "echo \"$MCPSCOPE_ID $0 $1\" >`+marker+`", "x y", "--"]}}}`)
	h.wrap(0, "--yes")
	text, err := os.ReadFile(h.path(".cursor/mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		}
	}
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	server := config.MCPServers["a b"]
	checkSuccess(t, w.run(w.Command(append([]string{server.Command}, server.Args...)...)))
	said, err := os.ReadFile(marker)
	if id, rest, _ := strings.Cut(string(said), " "); err != nil || id == "" || rest != "x y --\n" {
		t.Errorf("the server said %q (%v)", said, err)
	}
	w.clean()
}
