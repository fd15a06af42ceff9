// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"regexp"
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
		{"a shell", Rules{}, piped("/bin/sh -c npx"), Candidate},
		{"not to be seen", Rules{}, Caller{Stdio: true}, Candidate},
		{"the gateway's own stdin", Rules{}, Caller{Stdio: true, Inherited: true, Argv: []string{"node", "worker.js"}}, Left},
		{"no pipes", Rules{}, alone("npx mcp-x"), Left},
		{"wrapped", Rules{}, piped("/usr/local/bin/mcpscope run -- npx x"), Left},
		{"wrapped, and it matches", Rules{Match: []string{"*"}}, piped("mcpscope run -- npx x"), Left},
		{"a gateway within", Rules{Match: []string{"*"}}, piped("mcpscope gateway -- x"), Taken},
		{"a supervisor", Rules{Match: []string{"*"}}, piped("mcpscope supervise 5 x"), Left},
		{"an exception", Rules{Except: []string{"node"}}, piped("/usr/bin/node tool.js"), Left},
		{"no exception", Rules{Except: []string{"node"}}, piped("/usr/bin/node20 tool.js"), Candidate},
		{"a match by name", Rules{Match: []string{"ba?h"}}, alone("/bin/bash -c npx"), Taken},
		{"a match by line", Rules{Match: []string{"*bash -c *server*"}}, alone("/bin/bash -c my/server x"), Taken},
		{"a match by name and arguments", Rules{Match: []string{"sh -c *"}}, alone("/bin/sh -c npx x"), Taken},
		{"by the whole line", Rules{Match: []string{"/bin/sh -c *"}}, alone("/bin/sh -c npx x"), Taken},
		{"by arguments alone", Rules{Match: []string{"-c *"}}, alone("/bin/sh -c npx x"), Left},
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

// The examples of the documents do what they are there for, and take no agent.
func TestExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/use/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	var rules Rules
	for _, m := range regexp.MustCompile(`--(match|except) '([^']*)'`).FindAllStringSubmatch(string(text), -1) {
		if m[1] == "match" {
			rules.Match = append(rules.Match, m[2])
		} else {
			rules.Except = append(rules.Except, m[2])
		}
	}
	if len(rules.Match) < 2 || len(rules.Except) < 1 {
		t.Fatalf("there are no examples: %+v", rules)
	}
	for line, want := range map[string]Verdict{
		"npx -y some-mcp-server": Taken, "/usr/bin/npx mcp-remote https://x": Taken, "/bin/bash -c exec node server.js": Taken, "bash -c node server.js": Taken,
		"claude --mcp-config /x.json -p hello": Candidate, "node worker.js": Candidate, "bash -c ls": Candidate, "git status": Left, "/usr/bin/git-remote-https x": Left,
	} {
		argv := strings.Fields(line)
		if got, why := rules.Decide(Caller{Stdio: true, Argv: argv, Path: argv[0]}); got != want {
			t.Errorf("%q: %v (%s), want %v", line, got, why, want)
		}
	}
}
