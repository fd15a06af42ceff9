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
	shell := Caller{Stdio: true, Argv: []string{"/bin/bash", "-c", "exec my server"}, Path: "/bin/bash"}
	for _, c := range []struct {
		what  string
		rules Rules
		stdio bool
		want  Verdict
	}{
		{"a shell that is configured", rules, true, Taken},
		{"without pipes, but it listens", Rules{Configured: []Configured{{Argv: shell.Argv, Listens: true}}}, false, Taken},
		{"an exception", Rules{Except: []string{"bash"}, Configured: rules.Configured}, true, Left},
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
