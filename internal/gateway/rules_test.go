// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	piped := func(line string) Caller {
		argv := strings.Fields(line)
		return Caller{Stdio: true, Argv: argv, Path: argv[0]}
	}
	alone := func(line string) Caller { c := piped(line); c.Stdio = false; return c }
	for _, c := range []struct {
		what  string
		rules Rules
		of    Caller
		want  Verdict
	}{
		{"a program with pipes", Rules{}, piped("/opt/x"), Candidate},
		{"the gateway's own stdin", Rules{}, Caller{Stdio: true, Inherited: true, Argv: []string{"node", "worker.js"}}, Left},
		{"no pipes", Rules{}, alone("npx mcp-x"), Left},
		{"wrapped", Rules{}, piped("/usr/local/bin/mcpscope run -- npx x"), Left},
		{"a gateway within", Rules{Match: []string{"*"}}, piped("mcpscope gateway -- x"), Taken},
		{"an exception", Rules{Except: []string{"node"}}, piped("/usr/bin/node tool.js"), Left},
		{"a match by name", Rules{Match: []string{"ba?h"}}, alone("/bin/bash -c npx"), Taken},
		{"a match by line", Rules{Match: []string{"*bash -c *server*"}}, alone("/bin/bash -c my/server x"), Taken},
		{"no match", Rules{Match: []string{"uvx"}}, piped("npx x"), Candidate},
		{"no match, and no other servers", Rules{Match: []string{"uvx"}, NamedOnly: true}, piped("npx x"), Left},
		{"a match and an exception", Rules{Match: []string{"*"}, Except: []string{"npx"}}, piped("npx x"), Left},
	} {
		if got, why := c.rules.Decide(c.of); got != c.want || (why == "") != (got == Candidate) {
			t.Errorf("%s: %v (%s), want %v", c.what, got, why, c.want)
		}
	}
}

// Workers of a gateway's and tools are run by what runs servers, too.
func TestByName(t *testing.T) {
	for line, want := range map[string]Verdict{
		"/usr/bin/npx -y x": Taken, "uvx mcp-server-time": Taken, "docker run -i mcp/time": Taken, "/opt/github-mcp-server stdio": Taken,
		"node /x/node_modules/@scope/mcp-files/dist/index.js": Taken, "python3 -m mcp_server_git": Taken, "bash /opt/run-mcp.sh": Taken,
		"node /x/worker.js": Left, "python3 tool.py": Left, "sh -c ls": Left, "git status": Left, "/usr/bin/tomcpal": Left, "": Left,
		"node /x/node_modules/@github/copilot/npm-loader.js --headless": Left,
		"claude --mcp-config x.json --input-format stream-json":         Left,
	} {
		c := Caller{Stdio: true, Argv: strings.Fields(line)}
		if len(c.Argv) > 0 {
			c.Path = c.Argv[0]
		}
		if got, why := byName(c); got != want || why == "" {
			t.Errorf("%q: %v (%s), want %v", line, got, why, want)
		}
	}
}
