// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A tried is a gateway or agent as people have it, that is started with two servers. SERVER in its
// command and files is the servers' command, HOME its home, CLIENTS the clients' directory.
type tried struct {
	name    string
	program string // below the clients' directory
	args    []string
	files   map[string]string // below the home
	env     []string
	asked   []string // what asks it, with httpask; none for one that starts its servers by itself
	servers int      // how many it has
	more    int      // servers that are taken at times: below one in whose group they may be, or ended before they execute
	node    bool     // it is a script of ours
}

// two are the servers of those with a configuration: one behind a shell.
const two = `{"mcpServers": {"one": {"command": "SERVER", "args": []}, "two": {"command": "sh", "args": ["-c", "SERVER"]}}}`

const openCode = `{"mcp": {"one": {"type": "local", "command": ["SERVER"], "enabled": true},
	"two": {"type": "local", "command": ["sh", "-c", "SERVER"], "enabled": true}}}`

const echo = `{"message": "hello"}`

// nowhere answers no request.
const nowhere = "http://127.0.0.1:9/v1"

var allTried = []tried{
	{name: "supergateway", program: "gateways/node_modules/.bin/supergateway", args: strings.Fields("--stdio SERVER --port 8123"),
		asked: []string{"--sse", "http://localhost:8123/sse"}, servers: 1},
	{name: "supergateway, streamable", program: "gateways/node_modules/.bin/supergateway",
		args: strings.Fields("--stdio SERVER --outputTransport streamableHttp --stateful --port 8123"), asked: []string{"http://localhost:8123/mcp"}, servers: 1, more: 1}, // one for server/discover, which it refuses
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
	{name: "tooner in supergateway", program: "gateways/node_modules/.bin/supergateway",
		args:  []string{"--stdio", "CLIENTS/gateways/node_modules/.bin/tooner_linux_amd64 SERVER", "--port", "8123"},
		asked: []string{"--sse", "http://localhost:8123/sse"}, servers: 1, more: 1},
	{name: "slop-mcp", program: "gateways/node_modules/.bin/slop-mcp", args: strings.Fields("serve --port 8123"), servers: 2,
		files: map[string]string{".slop-mcp.kdl": "mcp \"one\" {\n command \"SERVER\"\n}\nmcp \"two\" {\n command \"sh\"\n args \"-c\" \"SERVER\"\n}\n"}},
	{name: "mcp-cli", program: "gateways/node_modules/.bin/mcp-cli", args: append(strings.Fields("--config HOME/two.json call-tool two:echo --args"), echo),
		files: map[string]string{"two.json": two}, servers: 1},
	{name: "OpenAI Agents SDK", program: "gateways/openaisdk.mjs", args: []string{"SERVER"}, servers: 4, node: true}, // one of each for server/discover, which it refuses
	{name: "LangChain", program: "gateways/langchain.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Strands Agents", program: "gateways/strands.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Agent Development Kit", program: "gateways/adk.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "AI SDK", program: "gateways/aisdk.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Mastra", program: "gateways/mastra.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Genkit", program: "gateways/genkit.mjs", args: []string{"SERVER"}, servers: 2, node: true},
	{name: "Kilo Code", program: "gateways/node_modules/@kilocode/cli-linux-x64/bin/kilo", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".config/kilo/kilo.json": openCode}},
	{name: "Claude Code", program: "agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".claude.json": two}},
	{name: "Claude Code --mcp-config", program: "agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
		args: strings.Fields("-p hello --mcp-config HOME/two.json"), files: map[string]string{"two.json": two}, servers: 2,
		env: []string{"ANTHROPIC_API_KEY=x", "ANTHROPIC_BASE_URL=" + nowhere}},
	{name: "Gemini CLI", program: "agents/node_modules/@google/gemini-cli/bundle/gemini.js", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".gemini/settings.json": two}, env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"}},
	{name: "opencode", program: "agents/node_modules/opencode-linux-x64/bin/opencode", args: strings.Fields("mcp list"), servers: 2,
		files: map[string]string{".config/opencode/opencode.json": openCode}},
	{name: "Codex", program: "agents/node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
		args:  []string{"exec", "--skip-git-repo-check", "-c", `model_provider="none"`, "-c", fmt.Sprintf("model_providers.none={name=%q,base_url=%q}", "none", nowhere), "hello"},
		files: map[string]string{".codex/config.toml": "[mcp_servers.one]\ncommand = \"SERVER\"\n[mcp_servers.two]\ncommand = \"sh\"\nargs = [\"-c\", \"SERVER\"]\n"}, servers: 2},
	{name: "Copilot CLI", program: "agents/node_modules/@github/copilot-linux-x64/copilot", args: strings.Fields("-p hello"), servers: 2,
		files: map[string]string{".copilot/mcp-config.json": strings.ReplaceAll(two, `"command"`, `"type": "local", "tools": ["*"], "command"`)},
		env:   []string{"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_BASE_URL=" + nowhere, "COPILOT_MODEL=x", "COPILOT_PROVIDER_API_KEY=x"}},
}

// Gateways that people have answer, and end as without mcpscope, each server is captured whatever starts
// it, with no configuration that mcpscope reads, and nothing of it is left however the gateway ends. What else
// it has started lives.
func TestTried(t *testing.T) {
	if os.Getenv("TESTS_TRIED") == "" {
		t.Skip("make test-tried: gateways and agents take 5.9 GB")
	}
	dir := clients(t)
	for _, one := range allTried {
		t.Run(one.name, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(dir, one.program)); errors.Is(err, fs.ErrNotExist) {
				t.Skip("npm could not install it")
			}
			one.compare(t, dir)
			one.end(t, dir, unix.SIGTERM, false)
			one.end(t, dir, unix.SIGKILL, false)
			one.end(t, dir, unix.SIGKILL, true)
		})
	}
}

// triedRun is one that runs.
type triedRun struct {
	tried
	*world
	dir, group string
	cmd        *exec.Cmd
	out        *os.File
	own        *escape.Process
}

// start starts it bare, or below mcpscope gateway. unnamed: no command line of its servers shows that they are. It has a child that is no server's.
func (g tried) start(t *testing.T, dir string, below, unnamed bool) *triedRun {
	t.Helper()
	r := &triedRun{tried: g, world: newWorld(t), dir: dir}
	home, err := os.MkdirTemp("", "tried.") // a shell takes its name as it is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // what still writes to it has been killed
	server := filepath.Join(home, "server")
	fill := func(s string) string {
		return strings.NewReplacer("SERVER", server, "HOME", home, "CLIENTS", dir).Replace(s)
	}
	everything := filepath.Join(dir, "node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
	files := map[string]string{"server": fmt.Sprintf("#!/bin/sh\nexec node '%s' stdio\n", everything)}
	if unnamed {
		files["server"] = "#!/bin/sh\nexec node HOME/plain.mjs stdio\n"
		files["plain.mjs"] = fmt.Sprintf("await import('%s')", everything)
	}
	maps.Copy(files, g.files)
	for name, text := range files {
		file := filepath.Join(home, name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700)); err == nil {
			err = escape.WriteProgram(file, fill(text))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	r.out = escape.MemoryFile(t)
	command := []string{"env", "HOME=" + home, "sh", "-c", `/bin/sleep 1000 </dev/null >/dev/null 2>&1 & exec "$@"`, "sh"}
	if g.node {
		command = append(command, "node")
	}
	command = append(command, filepath.Join(dir, g.program))
	for _, arg := range g.args {
		command = append(command, fill(arg))
	}
	if below { // it finds no configuration that mcpscope reads
		command = append([]string{"env", "HOME=/nonexistent"}, r.line(command)...)
	}
	r.cmd = r.Command(append([]string{"env", "-C", home, "sh", "-c", `ip link set lo up; exec "$@"`, "sh"}, command...)...)
	r.cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=dumb"}, g.env...)
	r.cmd.Stdout = r.out
	r.cmd.Stderr = r.out
	r.cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET, Setpgid: true}
	r.group = r.Unique("gateway")
	if err := escape.StartIn(r.group, r.cmd); err != nil {
		t.Fatal(err)
	}
	if r.own, err = escape.OpenProcess(r.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Kill(r.group, escape.Patience); err != nil {
			t.Error(err)
		}
		_ = r.cmd.Wait() // killed, or with a status of its own
		r.own.Close()
		if t.Failed() {
			text, _ := os.ReadFile(r.explain) // none, if it was bare
			t.Logf("it says %s\nexplained:\n%s", escape.Contents(r.out), text)
		}
	})
	return r
}

// ask returns what httpask says, once the gateway listens; "" for one that is not asked.
func (r *triedRun) ask() (said string) {
	r.T.Helper()
	if len(r.asked) == 0 {
		return ""
	}
	args := append([]string{"-t", fmt.Sprint(r.cmd.Process.Pid), "-n", filepath.Join(r.dir, "bin/httpask"), "--sessions", "1"}, r.asked...)
	answers := func() bool {
		out, err := exec.Command("nsenter", append(args, "echo", echo)...).Output()
		said = string(out)
		return err == nil
	}
	if !pace.Eventually(escape.Patience, answers) {
		r.T.Fatalf("it does not answer: %s", escape.Contents(r.out))
	}
	return said
}

// taken waits until its servers are in groups, and fails the test if others are.
func (r *triedRun) taken() {
	r.T.Helper()
	count := func(text string) int { return strings.Count(text, takenAs) }
	least := r.servers
	if r.more > 0 { // each that has started is taken
		least = max(least, strings.Count(escape.Contents(r.out), "Starting default (STDIO) server"))
	}
	_ = escape.AwaitText(r.explain, 4*escape.Patience, func(text string) bool { return count(text) >= least })
	text, err := os.ReadFile(r.explain)
	if n := count(string(text)); n < least || n > r.servers+r.more || err != nil {
		r.T.Fatalf("%d servers were taken, want %d to %d (%v)", n, least, r.servers+r.more, err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if _, reason, taken := strings.Cut(line, takenAs); taken {
			r.T.Log(reason)
		}
	}
}

// compare: it answers the same, with servers that are recognized only by their client's first bytes.
func (g tried) compare(t *testing.T, dir string) {
	t.Helper()
	bare := g.start(t, dir, false, false)
	below := g.start(t, dir, true, true)
	want := bare.ask()
	got := below.ask()
	if want != got {
		t.Errorf("bare it answers %.1000q, and below mcpscope gateway %.1000q", want, got)
	}
	below.taken()
}

// end ends it while its servers run.
func (g tried) end(t *testing.T, dir string, sig unix.Signal, group bool) {
	t.Helper()
	r := g.start(t, dir, true, false)
	r.ask()
	r.taken()
	members := r.members()
	others := r.otherClients(members)
	if group {
		_ = unix.Kill(-r.cmd.Process.Pid, sig) // its number is ours until it was waited for
	} else {
		r.own.Signal(sig)
	}
	if sig != unix.SIGKILL && !r.own.Ended(5*time.Second) { // some only ask for their end, or go on
		r.own.Signal(unix.SIGKILL)
	}
	for _, p := range others {
		p.Signal(unix.SIGKILL)
	}
	escape.WantEnded(t, members...)
	r.clean()
	pids, err := escape.GroupPids(r.group)
	sleeps := slices.ContainsFunc(pids, func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // none, if it has ended
		return strings.HasPrefix(string(line), "/bin/sleep\x001000")
	})
	if !group && !sleeps {
		t.Errorf("%v: what the gateway has started beside its servers is dead (%v)", sig, err)
	}
}

// otherClients are the processes of the gateway that have started its servers, if it was not the first one itself:
// after the end of that these are the clients until they end, too.
func (r *triedRun) otherClients(servers []*escape.Process) (all []*escape.Process) {
	r.T.Helper()
	pids, err := escape.GroupPids(r.group)
	if err != nil {
		r.T.Fatal(err)
	}
	for _, p := range r.open(pids) {
		isParent := func(server *escape.Process) bool {
			st, err := proc.ReadStat(server.PID)
			return err == nil && st.PPID == p.PID
		}
		if p.PID != r.own.PID && slices.ContainsFunc(servers, isParent) {
			all = append(all, p)
		}
	}
	return all
}
