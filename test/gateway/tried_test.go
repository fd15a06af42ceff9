// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A tried is a gateway or agent as people have it, that is started with two servers. SERVER in its
// command and files is the servers' command, HOME its home.
type tried struct {
	name    string
	program string // below the clients' directory
	args    []string
	files   map[string]string // below the home
	env     []string
	asked   []string // what asks it, with httpask; none for one that starts its servers by itself
	servers int      // how many it has
	node    bool     // it is a script of ours
	waits   bool     // it ends with its stdin
}

// two are the servers of those with a configuration: one behind a shell.
const two = `{"mcpServers": {"one": {"command": "SERVER", "args": []}, "two": {"command": "sh", "args": ["-c", "SERVER"]}}}`

const echo = `{"message": "hello"}`

// nowhere answers no request.
const nowhere = "http://127.0.0.1:9/v1"

var allTried = []tried{
	{name: "supergateway", program: "gateways/node_modules/.bin/supergateway", args: strings.Fields("--stdio SERVER --port 8123"),
		asked: []string{"--sse", "http://localhost:8123/sse"}, servers: 1},
	{name: "supergateway, streamable", program: "gateways/node_modules/.bin/supergateway",
		args: strings.Fields("--stdio SERVER --outputTransport streamableHttp --stateful --port 8123"), asked: []string{"http://localhost:8123/mcp"}, servers: 2}, // one for server/discover, which it refuses
	{name: "mcp-proxy of npm", program: "gateways/node_modules/.bin/mcp-proxy", args: strings.Fields("--port 8123 SERVER"),
		asked: []string{"http://localhost:8123/mcp"}, servers: 1},
	{name: "mcp-proxy of npm --shell", program: "gateways/node_modules/.bin/mcp-proxy", args: strings.Fields("--port 8123 --shell SERVER"),
		asked: []string{"http://localhost:8123/mcp"}, servers: 1},
	{name: "mcp-hub", program: "gateways/node_modules/.bin/mcp-hub", args: strings.Fields("--port 8123 --config HOME/two.json"),
		files: map[string]string{"two.json": two}, asked: []string{"--sse", "http://localhost:8123/mcp"}, servers: 2},
	{name: "MCP Inspector", program: "gateways/node_modules/.bin/mcp-inspector", args: strings.Fields("--cli --config HOME/two.json --server two --method tools/list"),
		files: map[string]string{"two.json": two}, servers: 1},
	{name: "mcporter", program: "gateways/node_modules/.bin/mcporter", args: strings.Fields("list --config HOME/two.json"),
		files: map[string]string{"two.json": two}, servers: 2},
	{name: "Claude Agent SDK", program: "gateways/agentsdk.mjs", args: []string{"SERVER"},
		env: []string{"ANTHROPIC_API_KEY=x", "ANTHROPIC_BASE_URL=" + nowhere, "IS_SANDBOX=1"}, servers: 2, node: true},
	{name: "Copilot SDK", program: "gateways/copilotsdk.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Qwen Code", program: "gateways/node_modules/.bin/qwen", args: []string{"-p", "hello"}, servers: 2,
		files: map[string]string{".qwen/settings.json": `{"security": {"auth": {"selectedType": "openai"}}, ` + two[1:]},
		env:   []string{"OPENAI_API_KEY=x", "OPENAI_BASE_URL=" + nowhere, "OPENAI_MODEL=x"}},
	{name: "Continue", program: "gateways/node_modules/.bin/cn", args: strings.Fields("-p hello --config HOME/config.yaml"), servers: 2,
		files: map[string]string{"config.yaml": "name: x\nversion: 0.0.1\nschema: v1\nmodels:\n  - {name: x, provider: openai, model: x, apiKey: x, apiBase: " + nowhere + "}\n" +
			"mcpServers:\n  - {name: one, command: SERVER, args: []}\n  - {name: two, command: sh, args: [-c, SERVER]}\n"}},
	{name: "Cline", program: "gateways/node_modules/.bin/cline", args: []string{"-P", "openai", "-k", "x", "-m", "x", "say hello to me"}, servers: 2,
		files: map[string]string{".cline/data/settings/cline_mcp_settings.json": two}},
	{name: "Claude Code", program: "agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".claude.json": two}},
	{name: "Claude Code --mcp-config", program: "agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
		args: strings.Fields("-p hello --mcp-config HOME/two.json"), files: map[string]string{"two.json": two}, servers: 2,
		env: []string{"ANTHROPIC_API_KEY=x", "ANTHROPIC_BASE_URL=" + nowhere}},
	{name: "Gemini CLI", program: "agents/node_modules/@google/gemini-cli/bundle/gemini.js", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".gemini/settings.json": two}, env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"}},
	{name: "opencode", program: "agents/node_modules/opencode-linux-x64/bin/opencode", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".config/opencode/opencode.json": `{"mcp": {"one": {"type": "local", "command": ["SERVER"], "enabled": true},
			"two": {"type": "local", "command": ["sh", "-c", "SERVER"], "enabled": true}}}`}},
	{name: "Codex", program: "agents/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
		args:  []string{"exec", "--skip-git-repo-check", "-c", `model_provider="none"`, "-c", fmt.Sprintf("model_providers.none={name=%q,base_url=%q}", "none", nowhere), "hello"},
		files: map[string]string{".codex/config.toml": "[mcp_servers.one]\ncommand = \"SERVER\"\n[mcp_servers.two]\ncommand = \"sh\"\nargs = [\"-c\", \"SERVER\"]\n"}, servers: 2},
	{name: "Copilot CLI", program: "agents/node_modules/@github/copilot-linux-x64/copilot", args: strings.Fields("-p hello"), servers: 2,
		files: map[string]string{".copilot/mcp-config.json": strings.ReplaceAll(two, `"command"`, `"type": "local", "tools": ["*"], "command"`)},
		env:   []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + nowhere, "COPILOT_MODEL=x", "COPILOT_PROVIDER_API_KEY=x"}},
	{name: "a gateway on the TypeScript SDK", program: "bin/tssdk", args: strings.Fields("-- sh -c SERVER"), servers: 1, waits: true},
	{name: "a gateway on the Go SDK", program: "bin/gosdk", args: strings.Fields("-- sh -c SERVER"), servers: 1, waits: true},
	{name: "a gateway on mcp-go", program: "bin/mcpgo", args: strings.Fields("-- sh -c SERVER"), servers: 1, waits: true},
	{name: "a gateway like those on the Python SDK", program: "bin/pythonlike", args: strings.Fields("-- sh -c SERVER"), servers: 1, waits: true},
}

// triedPatience is for a program of hundreds of megabytes that is read from a disk.
const triedPatience = 2 * time.Minute

// Gateways that people have answer, print and end as without mcpscope, each server is captured whatever starts
// it, with no configuration that mcpscope reads, and nothing of it is left however the gateway ends. What else
// it has started lives.
func TestTried(t *testing.T) {
	if os.Getenv("MCPSCOPE_TEST_TRIED") == "" {
		t.Skip("make test-tried: gateways and agents take 2.8 GB")
	}
	dir := clients(t)
	for _, one := range allTried {
		t.Run(one.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, one.program)); errors.Is(err, fs.ErrNotExist) {
				t.Skip("npm could not install it")
			}
			one.compare(t, dir)
			for _, end := range []unix.Signal{unix.SIGKILL, unix.SIGTERM, unix.SIGSEGV} {
				one.end(t, dir, end, false)
			}
			one.end(t, dir, unix.SIGKILL, true)
			if len(one.asked) > 0 {
				one.reconnect(t, dir)
			}
		})
	}
}

// triedRun is one that runs.
type triedRun struct {
	tried
	*world
	dir, home, group string
	cmd              *exec.Cmd
	out              *os.File
	ended            chan error
}

// start starts it bare, or below mcpscope gateway. It has a child that is no server's.
func (g tried) start(t *testing.T, dir string, below bool) *triedRun {
	t.Helper()
	r := &triedRun{tried: g, world: newWorld(t), dir: dir, ended: make(chan error, 1)}
	var err error
	if r.home, err = os.MkdirTemp("", "tried."); err != nil { // a shell takes its name as it is
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(r.home) }) // what still writes to it has been killed
	server := filepath.Join(r.home, "server")
	script := fmt.Sprintf("#!/bin/sh\nexec node '%s' stdio\n", filepath.Join(dir, "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js"))
	fill := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "SERVER", server), "HOME", r.home)
	}
	err = os.WriteFile(server, []byte(script), 0o700)
	for name, text := range g.files {
		file := filepath.Join(r.home, name)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(file), 0o700)
		}
		if err == nil {
			err = os.WriteFile(file, []byte(fill(text)), 0o600)
		}
	}
	if err == nil {
		r.out, err = escape.OpenMemory("out")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.out.Close() })
	line := []string{"env", "-C", r.home, "sh", "-c", `ip link set lo up; exec "$@"`, "sh"}
	if below { // it finds no configuration that mcpscope reads
		line = append(line, "env", "HOME=/nonexistent", binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", r.explain, "--", "env", "HOME="+r.home)
	}
	line = append(line, "sh", "-c", `/bin/sleep 1000 </dev/null >/dev/null 2>&1 & exec "$@"`, "sh")
	if g.node {
		line = append(line, "node")
	}
	line = append(line, filepath.Join(dir, g.program))
	for _, arg := range g.args {
		line = append(line, fill(arg))
	}
	r.cmd = r.Command(line...)
	r.cmd.Env = append([]string{"HOME=" + r.home, "PATH=" + os.Getenv("PATH"), "TERM=dumb"}, g.env...)
	if g.waits {
		in, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		t.Cleanup(func() { theirs.Close() })
		r.cmd.Stdin = in
	}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET, Setpgid: true}
	r.group = r.Unique("gateway")
	if err := escape.StartIn(r.group, r.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		if err := bed.Kill(r.group, escape.Patience); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(r.explain) // none, if it was bare
			said := escape.Contents(r.out)
			t.Logf("it says %s\nexplained:\n%s", said[max(0, len(said)-2000):], text)
		}
	})
	return r
}

// ask returns what httpask says, once the gateway listens.
func (r *triedRun) ask(sessions int) string {
	r.T.Helper()
	args := append([]string{"-t", fmt.Sprint(r.cmd.Process.Pid), "-n", filepath.Join(r.dir, "bin/httpask"), "--sessions", fmt.Sprint(sessions)}, r.asked...)
	for deadline := time.Now().Add(triedPatience); ; escape.PollFor(50 * time.Millisecond) { // until it listens
		out, err := exec.Command("nsenter", append(args, "echo", echo)...).Output()
		if err == nil {
			return string(out)
		}
		if time.Now().After(deadline) {
			r.T.Fatalf("it does not answer: %v: %s", err, escape.Contents(r.out))
		}
	}
}

// finish returns what one says that ends by itself, or after its servers have answered, and how it ended, "" if
// it has not.
func (r *triedRun) finish() (said, how string) {
	r.T.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return r.said(), fmt.Sprint(err)
	case <-time.After(12 * time.Second): // the agents try for long to reach their models
		return r.said(), ""
	}
}

func (r *triedRun) said() string {
	r.T.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", r.out.Fd()))
	if err != nil {
		r.T.Error(err)
	}
	return string(text)
}

func (r *triedRun) answer() (said, how string) {
	r.T.Helper()
	if len(r.asked) > 0 {
		return r.ask(1), ""
	}
	return r.finish()
}

// varying is what two runs do not have in common.
var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+|/tmp/[^ "']*|\x1b\[[0-9;?]*[A-Za-z]`)

func (g tried) compare(t *testing.T, dir string) {
	t.Helper()
	bare, below := g.start(t, dir, false), g.start(t, dir, true)
	want, ended := bare.answer()
	got, how := below.answer()
	if ended != how && ended != "" && how != "" { // one may wait for its servers
		t.Errorf("bare it ends with %s, and below mcpscope gateway with %s", ended, how)
	}
	lines := func(s string) []string {
		all := strings.Split(varying.ReplaceAllString(s, "#"), "\n")
		slices.Sort(all) // servers are started side by side
		return slices.Compact(all)
	}
	without := func(all, others []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(line string) bool { return slices.Contains(others, line) })
	}
	onlyBare, onlyBelow := without(lines(want), lines(got)), without(lines(got), lines(want))
	differ := len(onlyBare)+len(onlyBelow) > 0
	if len(below.asked) == 0 && (ended == "" || how == "") { // one may have come further than the other
		differ = len(onlyBare) > 0 && len(onlyBelow) > 0
	}
	if differ {
		t.Errorf("only bare it says %.1000q, and only below mcpscope gateway %.1000q", onlyBare, onlyBelow)
	}
	// one whose first message nobody has heard is taken with a later one, which may have been the last
	_ = escape.AwaitText(below.explain, escape.Patience, func(text string) bool { return strings.Count(text, " taken as ") >= g.servers })
	text, err := os.ReadFile(below.explain)
	if n := strings.Count(string(text), " taken as "); n != g.servers || err != nil {
		t.Errorf("%d servers were taken, want %d (%v)", n, g.servers, err)
	}
}

// up waits until its servers are in groups.
func (r *triedRun) up() {
	r.T.Helper()
	if len(r.asked) > 0 {
		r.ask(1)
	}
	err := escape.AwaitText(r.explain, triedPatience, func(text string) bool { return strings.Count(text, " taken as ") >= r.servers })
	if err != nil {
		r.T.Fatalf("its servers: %v", err)
	}
}

// end ends it while its servers run.
func (g tried) end(t *testing.T, dir string, sig unix.Signal, group bool) {
	t.Helper()
	r := g.start(t, dir, true)
	r.up()
	members := r.members()
	pid := r.cmd.Process.Pid
	if group {
		pid = -pid
	}
	_ = unix.Kill(pid, sig)  // it may have ended by itself; its number is ours until it was waited for
	if sig != unix.SIGKILL { // some only ask for their end, or go on
		select {
		case err := <-r.ended:
			r.ended <- err
		case <-time.After(5 * time.Second):
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	for _, p := range members {
		if !p.Ended(escape.Patience) {
			t.Errorf("%v (group %v): left: %s", sig, group, escape.Describe(p.PID))
		}
	}
	r.clean()
	if !group && !r.sleeps() {
		t.Errorf("%v: what the gateway has started beside its servers is dead", sig)
	}
}

// sleeps tells whether its child lives.
func (r *triedRun) sleeps() bool {
	pids, err := escape.GroupPids(r.group)
	return err == nil && slices.ContainsFunc(pids, func(pid int) bool {
		line, _ := os.ReadFile(filepath.Join("/proc", itoa(pid), "cmdline")) // none, if it has ended
		return strings.HasPrefix(string(line), "/bin/sleep\x001000")
	})
}

// reconnect has it serve one session after the other.
func (g tried) reconnect(t *testing.T, dir string) {
	t.Helper()
	bare, below := g.start(t, dir, false), g.start(t, dir, true)
	bare.ask(15)
	below.ask(15)
	count := func(r *triedRun) int {
		pids, err := escape.GroupPids(r.group)
		if err != nil {
			t.Error(err)
		}
		return len(pids) + len(r.members())
	}
	// A session's server may take its grace.
	for deadline := time.Now().Add(seedEnd); count(below) > count(bare) && time.Now().Before(deadline); escape.PollFor(10 * time.Millisecond) {
	}
	if most := count(bare); count(below) > most {
		t.Errorf("after 15 sessions there are %d processes, and bare %d", count(below), most)
	}
}
