// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

const threeServers = `{
  "theme": "dark",
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "browser": {"command": "npx", "args": ["-y", "hungry-browser-server"]}
  }
}
`

// configurations are those of the guides: files below the home directory.
var configurations = map[string]map[string]string{
	"codex": {
		".codex/config.toml": "[mcp_servers.time]\ncommand = \"uvx\"\nargs = [\"mcp-server-time\"]\n",
	},
	"editors": {
		".cursor/mcp.json":           `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`,
		".config/Code/User/mcp.json": `{"servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`,
	},
	"YAML clients": {
		".config/goose/config.yaml": "extensions:\n  time:\n    cmd: uvx\n    args: [mcp-server-time]\n",
		".hermes/config.yaml":       "mcp_servers:\n  git:\n    command: uvx\n    args: [mcp-server-git]\n",
	},
	"opencode and gemini": {
		".gemini/settings.json":          `{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}`,
		".config/opencode/opencode.json": `{"mcp": {"time": {"type": "local", "command": ["uvx", "mcp-server-time"]}}}`,
	},
}

// write makes files of clients.
func (s *stage) write(files map[string]string) {
	for file, text := range files {
		s.sh(host.Tester, "cd && mkdir -p $(dirname "+file+") && cat >"+file+" <<'END'\n"+strings.TrimSuffix(text, "\n")+"\nEND")
	}
}

// limited is whether the host has the controllers of limits.
func (s *stage) limited() bool {
	controllers := s.sh(host.Tester, "cat $(findmnt -n -o TARGET -t cgroup2 | head -n 1)/cgroup.controllers")
	return strings.Contains(controllers, "memory")
}

// runs waits until each of these servers has a group of its own, or none.
func (s *stage) runs(u host.User, is bool, names ...string) {
	s.t.Helper()
	for _, name := range names {
		if !pace.Eventually(escape.Patience, func() bool { return len(u.Scopes(name)) == 1 == is }) {
			s.t.Errorf("scopes of %s: %q", name, u.Scopes(name))
		}
	}
}

// servers opens all processes of servers and package runners, and kills them after the test.
func (s *stage) servers(n int) (all []*escape.Process) {
	s.t.Helper()
	for _, word := range strings.Fields(s.sh(host.Root, "pgrep -x 'uvx|npx|mcp-server'")) {
		pid, _ := strconv.Atoi(word) // pgrep prints numbers
		p, err := escape.OpenProcess(pid)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(p.Close)
		all = append(all, p)
	}
	if len(all) != n {
		s.t.Errorf("%d processes of servers, want %d", len(all), n)
	}
	s.t.Cleanup(func() {
		for _, p := range all {
			p.Signal(unix.SIGKILL)
		}
		escape.WantEnded(s.t, all...)
	})
	return all
}

// leave has a client without mcpscope killed, whose servers stay.
func (s *stage) leave() {
	s.configure(threeServers)
	s.startClient()
	s.leaked = s.servers(6)
	s.endClient(true)
	for _, p := range s.leaked {
		if p.Ended(0) {
			s.t.Errorf("process %d has ended with its client", p.PID)
		}
	}
}

func (s *stage) gatewayMeasured() {
	s.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	body := ""
	const get = `exec 3<>/dev/tcp/127.0.0.1/9500 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	if !pace.Eventually(escape.Patience, func() bool {
		out, err := s.command(host.Root, get).Output()
		body = string(out)
		return err == nil // once it listens
	}) {
		s.t.Error("no metrics are served")
	}
	escape.Contains(s.t, body, `name="mcp-server-time"`, `name="some-mcp-server"`)
}

// uninstalled checks that the servers go on, and that clients start theirs without mcpscope.
func (s *stage) uninstalled() {
	if file := s.sh(host.Tester, "cat ~/.claude.json"); file != configuration {
		s.t.Errorf("the client's file is\n%s", file)
	}
	if left := s.sh(host.Root, "find /usr/local /usr/lib/systemd /etc ~tester/.local/state -name '*mcpscope*' ! -type d 2>/dev/null || :"); left != "" {
		s.t.Errorf("left: %s", left)
	}
	s.runs(host.Tester, true, "time", "browser") // their client lives
	s.endClient(false)
	s.runs(host.Tester, false, "time", "browser")
	s.startClient()
	s.servers(4)
	s.runs(host.Tester, false, "time", "browser")
}
