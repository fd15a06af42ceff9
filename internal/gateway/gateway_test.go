// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/mcpscope/mcpscope/internal/glob"
)

func TestInterpreter(t *testing.T) {
	for line, want := range map[string]string{
		"#!/bin/sh": "/bin/sh", "#! /usr/bin/python3 -I": "/usr/bin/python3", "#!/usr/bin/env node": "node",
		"#!/usr/bin/env -S A=1 deno run": "deno", "#!": "", "#!/usr/bin/env": "", "\x7fELF": "", "": "",
	} {
		if got := interpreter([]byte(line)); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// What is read of a caller may be anything, and be anywhere.
func TestMemory(t *testing.T) {
	long := append([]byte(strings.Repeat("x", 5*page)), 0)
	got, err := stringAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&long[0]))))
	if err != nil || len(got) < bytesMost || len(got) >= len(long) {
		t.Errorf("%d bytes of a long string (%v)", len(got), err)
	}
	word := []byte("word\x00")
	pointers := []uintptr{uintptr(unsafe.Pointer(&word[0])), uintptr(unsafe.Pointer(&word[0])), 0}
	all, err := stringsAt(os.Getpid(), uint64(uintptr(unsafe.Pointer(&pointers[0]))))
	if err != nil || strings.Join(all, " ") != "word word" {
		t.Errorf("%q, %v", all, err)
	}
	for _, nowhere := range []uint64{0, 8, 1 << 63, 0xfffffffffffffff0} {
		if s, err := stringAt(os.Getpid(), nowhere); err == nil {
			t.Errorf("there is %q at %x", s, nowhere)
		}
	}
	if all, err := stringsAt(os.Getpid(), 0); len(all) > 0 || err != nil {
		t.Errorf("%q without arguments (%v)", all, err)
	}
}

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
