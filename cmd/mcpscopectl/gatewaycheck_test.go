// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// checked returns the output and the status of a check whose trial had that result. FILE stands for the settings
// file.
func checked(t *testing.T, c gatewayCheck, toml string, args ...string) (text string, status int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcpscope.toml")
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	c.files = settings.ParseFiles([]settings.FilePlace{{Path: file, Asked: true}})
	if err := c.parse(args); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	status = c.report(cli.Stdio{Out: &out})
	return strings.ReplaceAll(out.String(), file, "FILE"), status
}

// clientAndNoServers is the end of a check of hermes.
const clientAndNoServers = `
this command:
  hermes          /bin/sh is the client: its servers are contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  none            mcpscope wrap --list prints the files that are read
`

// A check names the rule and the settings of each server, and prints none of its arguments and variables.
func TestGatewayCheck(t *testing.T) {
	servers := []gateway.Configured{
		{Name: "time", Client: "hermes", File: "/c.yaml", Argv: []string{"uvx", "mcp-time"}, Env: map[string]string{"KEY": "SECRET"}},
		{Name: "gh", File: "/c.yaml", Argv: []string{"npx", "gh", "--token", "SECRET"}},
	}
	wrapped := []gateway.Configured{{Name: "old", File: "/c.yaml", Argv: []string{"mcpscope", "run", "--", "x", "SECRET"}}}
	for _, c := range []struct {
		what   string
		check  gatewayCheck
		toml   string
		args   string
		want   string
		status int
	}{
		{"a gateway", gatewayCheck{
			rules: gateway.Rules{Configured: servers}, wrapped: wrapped,
			place: host.Backend{Usable: true, Name: "cgroup", Controllers: []string{"memory"}},
		}, "[defaults]\nexcept = ['npx *']\nmemory-max = '1M'\nmatch = ['x']\n[server.time]\npids-max = 9\nidle-freeze = '10m'\n",
			"--match y* --replace -- /bin/sh hermes", `servers can be contained here, by cgroup: a group below mcp.slice in the cgroup2 hierarchy
  match           "y*" (--match)
  except          "npx *" (FILE:2)

this command:
  hermes          /bin/sh is the client: its servers are contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  time            uvx is a server: configured as "time" in /c.yaml
                  with idle-freeze=10m0s, memory.max=1048576, pids.max=9 (not possible here), replace
  gh              npx is left alone: except "npx *"
  old             mcpscope is left alone: mcpscope run contains it
`, cli.ExitOK},
		{"a server, and no group", gatewayCheck{
			place: host.Backend{Reason: "no backend works here:\na: b", Fix: "do it"},
		}, "[defaults]\noops = 1\n", "-- /bin/sh foo-mcp SECRET", `servers cannot be contained here: no backend works here:, a: b
  → do it
  settings        FILE:2: unknown key "oops"

this command, if a gateway starts it with pipes:
  foo-mcp         /bin/sh is contained from its start, and a server once its client writes MCP: its name is "foo-mcp"
                  if it is the gateway: its servers are not contained

configured servers, if it starts them with pipes:
  none            mcpscope wrap --list prints the files that are read
`, cli.ExitFailure},
		{"a client that no manager keeps", gatewayCheck{
			place: host.Backend{Usable: true, Name: "tree", Reason: "no backend works:\ncgroup", Fix: "add Delegate=yes"},
		}, "", "-- /bin/sh hermes", `servers can be contained here, by tree: no control group, which is weaker; --require refuses it
  because no backend works:, cgroup
  → add Delegate=yes
  → or, for a gateway that is a system unit: sudo mcpscope units --unit UNIT --install --now

this command:
  hermes          /bin/sh is the client: its servers are contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  none            mcpscope wrap --list prints the files that are read
`, cli.ExitOK},
		{"a file that was named, and cannot be read", gatewayCheck{
			place: host.Backend{Usable: true, Name: "cgroup"}, unread: errors.New("/c: not valid JSON"),
		}, "", "--config /c --require -- /bin/sh hermes", `servers cannot be contained here: cannot read configurations: /c: not valid JSON

this command:
  hermes          /bin/sh is the client: its servers are not contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  none            mcpscope wrap --list prints the files that are read
`, cli.ExitFailure},
		{"below a gateway", gatewayCheck{
			inside: true, outer: gateway.Running{Name: "her\x1bmes", PID: 7}, wrapped: wrapped,
		}, "", "-- /bin/sh hermes", `servers are contained by the gateway around this one, her?mes[7], and by its rules

this command:
  hermes          /bin/sh is the client: its servers are contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  old             mcpscope is left alone: mcpscope run contains it
`, cli.ExitOK},
		{"a session", gatewayCheck{place: host.Backend{Usable: true, Name: "cgroup", Controllers: []string{"memory", "pids"}}}, "",
			"--session-set memory.max=1M --session-set pids.max=9 -- /bin/sh hermes", `servers can be contained here, by cgroup: a group below mcp.slice in the cgroup2 hierarchy
  session         a group of this command and its servers, with memory.max=1048576 and pids.max=9
` + clientAndNoServers, cli.ExitOK},
		{"no session", gatewayCheck{place: host.Backend{Usable: true, Name: "tree"}}, "",
			"--session -- /bin/sh hermes", `servers can be contained here, by tree: no control group, which is weaker; --require refuses it
  session         none, so the command runs without one: the backend tree has no group that could be limited
` + clientAndNoServers, cli.ExitOK},
		{"no session, which is required", gatewayCheck{place: host.Backend{Usable: true, Name: "cgroup"}}, "",
			"--require --session-set pids.max=9 -- /bin/sh hermes", `servers can be contained here, by cgroup: a group below mcp.slice in the cgroup2 hierarchy
  session         none, so --require starts nothing: cgroup has no controller pids for pids.max=9
` + clientAndNoServers, cli.ExitFailure},
		{"a user", gatewayCheck{
			place: host.Backend{Usable: true, Name: "systemd-user"}, unread: errors.New("no home"),
			conditions: gateway.Conditions{NoNewPrivs: true, Blind: true},
		}, "", "--match a\x1b -- /no/such", `servers can be contained here, by systemd-user: a scope of your own manager, in mcp.slice
  command         /no/such: no such file or directory
  privileges      without root it sets no_new_privs: sudo does not work below it
  yama            unread input and the end of stdin are seen on pipes, not on sockets
  configurations  cannot be read: no home
  match           "a\x1b" (--match)

this command:
  such            /no/such is the client: its servers are contained
                  a server that it forks and does not execute is not seen: put mcpscope run in front of a command for it
                  as a server of another gateway, it is known once MCP is written to it, or from its start with --match

configured servers, if it starts them with pipes:
  none            mcpscope wrap --list prints the files that are read
`, cli.ExitOK},
	} {
		got, status := checked(t, c.check, c.toml, strings.Fields(c.args)...)
		if got != c.want || status != c.status {
			t.Errorf("%s: status %d, want %d\n%s\nwant:\n%s", c.what, status, c.status, got, c.want)
		}
	}
}

// The tool refuses what the runner refuses, in case that they are of different versions.
func TestGatewayCheckMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"--nope -- x":  "mcpscope: gateway: unknown flag \"--nope\"\nmcpscope: hint: mcpscope help gateway\n",
		"--check":      "mcpscope: gateway: no command given\nmcpscope: hint: mcpscope help gateway\n",
		"--check --":   "mcpscope: gateway: no command given\nmcpscope: hint: mcpscope help gateway\n",
		"--eof-grace=": "mcpscope: gateway: --eof-grace \"\": ",
	} {
		s := say(append([]string{gateway.CheckCommand}, strings.Fields(line)...)...)
		if s.status != cli.ExitOwnFailure || s.out != "" || !strings.HasPrefix(s.err, want) {
			t.Errorf("%s: %+v", line, s)
		}
	}
}
