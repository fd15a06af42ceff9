// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/glob"
)

func TestConfigured(t *testing.T) {
	rules := Rules{Configured: []Configured{
		{Name: "time", File: "f", Argv: strings.Fields("uvx mcp-server-time --zone UTC")},
		{Name: "files", File: "f", Argv: strings.Fields("/opt/files ~/data ${HOME}/x {env:KEY} pre$A-post")},
		{Name: "shell", File: "f", Argv: []string{"bash", "-c", "exec my server"}},
		{Name: "any", File: "f", Argv: []string{"sh", "-c", "$SCRIPT"}},
		{Name: "empty", File: "f", Argv: nil},
	}}
	for line, want := range map[string]string{
		"uvx mcp-server-time --zone UTC":                           "time",
		"/usr/bin/uvx mcp-server-time --zone UTC":                  "time",
		"/venv/bin/python /usr/bin/uvx mcp-server-time --zone UTC": "time",
		"grep uvx mcp-server-time --zone UTC":                      "",
		"/opt/files /home/a/data /home/a/x secret pre1-post":       "files",
		"/opt/files /home/a/other /home/a/x secret pre1-post":      "",
		"sh -c $SCRIPT":          "any",
		"bash -c exec my server": "",
	} {
		got := ""
		if c := rules.Server(strings.Fields(line)); c != nil {
			got = c.Name
		}
		if got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
	shell := Caller{Stdio: true, Argv: []string{"/bin/bash", "-c", "exec my server"}}
	for _, c := range []struct {
		what  string
		rules Rules
		stdio bool
		want  Verdict
	}{
		{"a shell that is configured", rules, true, IsServer},
		{"without pipes, but it listens", Rules{Configured: []Configured{{Argv: shell.Argv, Listens: true}}}, false, IsServer},
		{"an exception", Rules{Except: []string{"bash"}, Configured: rules.Configured}, true, NotServer},
	} {
		shell.Stdio = c.stdio
		if got, why := c.rules.Decide(shell); got != c.want {
			t.Errorf("%s: %v (%s), want %v", c.what, got, why, c.want)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("~/a${B}c$D{e:f}{", "x/abc")
	f.Fuzz(func(t *testing.T, arg, s string) {
		if strings.ContainsAny(arg, "~${*?") {
			return
		}
		if glob.Matches(pattern(arg), s) && s != "" {
			t.Errorf("%q matches %q", arg, s)
		}
	})
}

func TestDecide(t *testing.T) {
	piped := func(line string) Caller {
		return Caller{Stdio: true, Argv: strings.Fields(line)}
	}
	alone := func(line string) Caller { c := piped(line); c.Stdio = false; return c }
	for _, c := range []struct {
		what  string
		rules Rules
		of    Caller
		want  Verdict
	}{
		{"a program with pipes", Rules{}, piped("/opt/x"), MayBeServer},
		{"the gateway's own stdin", Rules{}, Caller{Stdio: true, Inherited: true, Argv: []string{"node", "worker.js"}}, NotServer},
		{"no pipes", Rules{}, alone("npx mcp-x"), NotServer},
		{"wrapped", Rules{}, piped("/usr/local/bin/mcpscope run -- npx x"), NotServer},
		{"a gateway within", Rules{Match: []string{"*"}}, piped("mcpscope gateway -- x"), IsServer},
		{"an exception", Rules{Except: []string{"node"}}, piped("/usr/bin/node tool.js"), NotServer},
		{"a match by name", Rules{Match: []string{"ba?h"}}, alone("/bin/bash -c npx"), IsServer},
		{"a match by line", Rules{Match: []string{"*bash -c *server*"}}, alone("/bin/bash -c my/server x"), IsServer},
		{"no match", Rules{Match: []string{"uvx"}}, piped("npx x"), MayBeServer},
		{"a match and an exception", Rules{Match: []string{"*"}, Except: []string{"npx"}}, piped("npx x"), NotServer},
	} {
		if got, why := c.rules.Decide(c.of); got != c.want || (why == "") != (got == MayBeServer) {
			t.Errorf("%s: %v (%s), want %v", c.what, got, why, c.want)
		}
	}
}

// A shell or an interpreter may read its program from stdin, and that may have messages of MCP in it.
func TestReadsProgram(t *testing.T) {
	for line, want := range map[string]bool{
		"bash": true, "bash -l": true, "bash -s": true, "bash -e": true, "sh -": true, "python3": true, "python3 -": true,
		"sh -o errexit": true, "bash +o posix": true, "bash --rcfile /dev/null": true, "python3 -W ignore": true, "python3 -X utf8": true,
		"bash -o pipefail run.sh": false, "python3 -W ignore srv.py": false,
		"python3 -u": true, "node": true, "node -": true, "bash --norc": true,
		"bash -c x": false, "bash -lc x": false, "bash run.sh": false, "python3 -m server": false, "python3 -u srv.py": false,
		"node index.js": false, "node -e x": false, "node --eval x": false, "node --require x index.js": false,
		"/opt/server": false, "npx -y x": false, "": false,
	} {
		if got := readsProgram(strings.Fields(line)); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

// Programs that run servers also run workers of a gateway, and tools.
func TestNamed(t *testing.T) {
	for line, want := range map[string]Verdict{
		"uvx mcp-server-time": NamedLikeServer, "/opt/github-mcp-server stdio": NamedLikeServer, "node /opt/my-mcp/dist/index.js": NamedLikeServer,
		"node /x/node_modules/@scope/mcp-files/dist/index.js": NamedLikeServer, "python3 -m mcp_server_git": NamedLikeServer, "bash /opt/run-mcp.sh": NamedLikeServer,
		"npx -y @modelcontextprotocol/server-memory@1": NamedLikeServer, "node /x/@modelcontextprotocol/server-memory/dist/index.js": NamedLikeServer,
		"node /x/worker.js": MayBeServer, "python3 tool.py": MayBeServer, "sh -c ls": MayBeServer, "git status": MayBeServer, "/usr/bin/tomcpal": MayBeServer,
		"npx -y x": MayBeServer, "docker run -i x": MayBeServer, "": MayBeServer, "grep -r @modelcontextprotocol/server-memory .": MayBeServer,
		"node /x/node_modules/@github/copilot/npm-loader.js --headless":     MayBeServer,
		"node /x/node_modules/@modelcontextprotocol/inspector/cli/index.js": MayBeServer,
		"claude --mcp-config x.json --input-format stream-json":             MayBeServer,
	} {
		got, why := Rules{}.Decide(Caller{Stdio: true, Argv: strings.Fields(line)})
		if got != want || (why == "") != (got == MayBeServer) {
			t.Errorf("%q: %v (%s), want %v", line, got, why, want)
		}
	}
}
