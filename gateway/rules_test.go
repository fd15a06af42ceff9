package gateway

import (
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	server := func(line string) Caller {
		argv := strings.Fields(line)
		return Caller{Direct: true, Stdio: true, Argv: argv, Path: argv[0]}
	}
	leader := func(c Caller) Caller { c.Leader = true; return c }
	by := func(c Caller, interpreter string) Caller { c.Interpreter = interpreter; return c }
	for _, c := range []struct {
		what  string
		rules Rules
		of    Caller
		want  Verdict
	}{
		{"a launcher", Rules{}, server("/usr/bin/npx -y x"), Taken},
		{"with a version", Rules{}, server("/opt/python3.12 -m x"), Taken},
		{"a script of a launcher's", Rules{}, by(server("/venv/bin/time"), "/venv/bin/python"), Taken},
		{"mcp in its name", Rules{}, server("/usr/bin/github-mcp-server stdio"), Taken},
		{"mcp within a word", Rules{}, server("/usr/bin/tomcpal"), Left},
		{"a shell script with mcp in its name", Rules{}, by(server("/opt/run-mcp.sh"), "/bin/sh"), Taken},
		{"a session of its own", Rules{}, leader(server("/opt/x")), Taken},
		{"a tool", Rules{}, server("/usr/bin/git status"), Left},
		{"a tool's shell", Rules{}, leader(server("/bin/bash -c npx")), Left},
		{"a shell script", Rules{}, leader(by(server("/opt/x"), "/bin/sh")), Left},
		{"not to be seen", Rules{}, Caller{Direct: true, Stdio: true, Leader: true}, Unsure},
		{"not to be seen, no pipes", Rules{}, Caller{Direct: true, Leader: true}, Left},
		{"no pipes", Rules{}, Caller{Direct: true, Argv: []string{"npx"}, Path: "npx"}, Left},
		{"a grandchild", Rules{}, Caller{Stdio: true, Argv: []string{"npx"}, Path: "npx"}, Left},
		{"wrapped", Rules{}, leader(server("/usr/local/bin/mcpscope run -- npx x")), Left},
		{"a gateway within", Rules{Match: []string{"*"}}, server("mcpscope gateway -- x"), Taken},
		{"a supervisor", Rules{Match: []string{"*"}}, server("mcpscope supervise 5 x"), Left},
		{"an exception", Rules{Except: []string{"node"}}, server("/usr/bin/node tool.js"), Left},
		{"no exception", Rules{Except: []string{"node"}}, server("/usr/bin/node20 tool.js"), Taken},
		{"a match by name", Rules{Match: []string{"ba?h"}}, server("/bin/bash -c npx"), Taken},
		{"a match by line", Rules{Match: []string{"*bash -c *server*"}}, Caller{Argv: []string{"/bin/bash", "-c", "my/server x"}}, Taken},
		{"no match", Rules{Match: []string{"uvx"}}, server("npx x"), Left},
		{"a match and an exception", Rules{Match: []string{"*"}, Except: []string{"npx"}}, server("npx x"), Left},
	} {
		if got, why := c.rules.Decide(c.of); got != c.want || why == "" {
			t.Errorf("%s: %v (%s), want %v", c.what, got, why, c.want)
		}
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		glob, s string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "a/b", true}, {"a*c", "abbc", true}, {"a*c", "abb", false},
		{"a?c", "abc", true}, {"a?c", "ac", false}, {"*a*b", "xaxbxb", true}, {"*a*b", "xaxbxc", false}, {"a.c", "abc", false}, {"**", "x", true},
		{strings.Repeat("*a", 20) + "b", strings.Repeat("a", 2000), false},
	} {
		if got := matches(c.glob, c.s); got != c.want {
			t.Errorf("%.40q on %.40q: %v", c.glob, c.s, got)
		}
	}
}
