// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

const tasksFile = "tasks.md"

const threeServers = `{
  "theme": "dark",
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "browser": {"command": "npx", "args": ["-y", "hungry-browser-server"]}
  }
}
`

// tasks is a stage with the processes of servers that it has seen.
type tasks struct {
	*stage
	leaked []*escape.Process
}

// Each task of the page does what it is for, as the kernel and the manager show it.
func TestTasks(t *testing.T) {
	if !escape.Full() {
		t.Skip("a leak is one after ten seconds: make test-full, make test-vm")
	}
	k := &tasks{stage: newStage(t)}
	k.acts["yesterday a client without mcpscope was killed"] = k.leave
	k.acts["three servers are in groups of their own"] = func() {
		k.runs(host.Tester, true, "time", "git",
			"browser")
	}
	k.acts["the gateway's servers are limited and measured"] = k.gatewayContained
	k.acts["the browser is limited"] = func() { k.runs(host.Tester, true, "browser") } // test/limits has the limits
	k.acts["the browser is gone, and no other"] = func() {
		k.runs(host.Tester, false, "browser")
		k.runs(host.Tester, true, "time", "git")
		k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	}
	k.acts["the leak is gone, and nothing else"] = func() {
		k.gone(k.leaked)
		k.runs(host.Tester, true, "time", "git")
		k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	}
	k.acts["mcpscope is gone, and clients work"] = k.uninstalled
	controllers := k.sh(host.Tester, "cat $(findmnt -n -o TARGET -t cgroup2 | head -n 1)/cgroup.controllers")
	limited := strings.Contains(controllers, "memory")
	for _, step := range steps(text(t, "docs/operate/"+tasksFile)) {
		if !limited && (strings.HasPrefix(step.command, "mcpscope set ") ||
			step.act == "the browser is limited") {
			t.Logf("line %d: SKIP: this host has no controller for memory", step.line)
			continue
		}
		k.play(step)
	}
}

// runs waits until each of these servers has a group of its own, or none.
func (k *tasks) runs(u host.User, is bool, names ...string) {
	k.t.Helper()
	for _, name := range names {
		if !await(func() bool { return len(u.Scopes(name)) == 1 == is }) {
			k.t.Errorf("scopes of %s: %q", name, u.Scopes(name))
		}
	}
}

func (k *tasks) gone(all []*escape.Process) {
	k.t.Helper()
	for _, p := range all {
		if !p.Ended(escape.Patience) {
			k.t.Errorf("left: %s", escape.Describe(p.PID))
		}
	}
}

// servers opens all processes of servers and package runners, and kills them after the test.
func (k *tasks) servers(n int) (all []*escape.Process) {
	k.t.Helper()
	for _, word := range strings.Fields(k.sh(host.Root, "pgrep -x 'uvx|npx|mcp-server'")) {
		pid, _ := strconv.Atoi(word) // pgrep prints numbers
		p, err := escape.OpenProcess(pid)
		if err != nil {
			k.t.Fatal(err)
		}
		k.t.Cleanup(p.Close)
		all = append(all, p)
	}
	if len(all) != n {
		k.t.Errorf("%d processes of servers, want %d", len(all), n)
	}
	k.t.Cleanup(func() {
		for _, p := range all {
			p.Signal(unix.SIGKILL)
		}
		k.gone(all)
	})
	return all
}

// leave has a client without mcpscope killed, whose servers stay.
func (k *tasks) leave() {
	k.configure(threeServers)
	k.startClient()
	k.leaked = k.servers(6)
	k.endClient(true)
	for _, p := range k.leaked {
		if p.Ended(0) {
			k.t.Errorf("process %d has ended with its client", p.PID)
		}
	}
}

func (k *tasks) gatewayContained() {
	k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	body := ""
	const get = `exec 3<>/dev/tcp/127.0.0.1/9500 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	if !await(func() bool {
		out, err := k.command(host.Root, get).Output()
		body = string(out)
		return err == nil // once it listens
	}) {
		k.t.Error("no metrics are served")
	}
	for _, text := range []string{`name="git"`, `name="some-mcp-server"`} {
		if !strings.Contains(body, text) {
			k.t.Errorf("no %s in\n%s", text, body)
		}
	}
}

// uninstalled checks that the servers go on, and that clients start theirs without mcpscope.
func (k *tasks) uninstalled() {
	if file := k.sh(host.Tester, "cat ~/.claude.json"); file != threeServers {
		k.t.Errorf("the client's file is\n%s", file)
	}
	left := k.sh(host.Root, "find /usr/local /usr/lib/systemd /etc ~tester/.local/state -name '*mcpscope*' ! -type d 2>/dev/null || :")
	if left != "/etc/mcpscope/mcpscope.toml\n" { // which was changed
		k.t.Errorf("left: %s", left)
	}
	k.runs(host.Tester, true, "time", "git") // their client lives
	k.runs(host.Root, false, "mcp-server-time", "some-mcp-server")
	k.sh(host.Root, "systemctl is-active my-gateway")
	k.endClient(false)
	k.runs(host.Tester, false, "time", "git")
	k.startClient()
	k.runs(host.Tester, false, "time", "git", "browser")
	k.servers(6 + 4) // the client's, and those that the gateway has after its restart
}
