// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"os"
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
	limited         bool // the host has a controller for memory
	leaked, clients []*escape.Process
}

// Each task of the page does what it is for, as the kernel and the manager show it.
func TestTasks(t *testing.T) {
	if !escape.Full() {
		t.Skip("a leak is one after ten seconds: make test-robust, make test-vm")
	}
	k := &tasks{stage: newStage(t)}
	k.acts["yesterday a client without mcpscope was killed"] = k.leave
	k.acts["three servers are in groups of their own"] = func() {
		k.runs(host.Tester, true, "time", "git", "browser")
		k.clients = append(k.members(host.Tester, "time"), k.members(host.Tester, "git")...)
	}
	k.acts["the gateway's servers are limited and measured"] = k.gatewayContained
	k.acts["the browser is limited"] = func() { k.holds(host.Tester, "browser", "536870912", "100") }
	k.acts["the browser is gone, and no other"] = func() {
		k.runs(host.Tester, false, "browser")
		k.runs(host.Tester, true, "time", "git")
		k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	}
	k.acts["the leak is gone, and nothing else"] = func() {
		k.gone(k.leaked)
		k.live(k.clients)
		k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	}
	k.acts["mcpscope is gone, and clients work"] = k.uninstalled
	controllers := k.sh(host.Tester, "cat $(findmnt -n -o TARGET -t cgroup2 | head -n 1)/cgroup.controllers")
	k.limited = strings.Contains(" "+controllers+" ", "memory")
	for _, step := range steps(text(t, "docs/operate/"+tasksFile)) {
		if !k.limited && (strings.HasPrefix(step.command, "mcpscope set ") || step.act == "the browser is limited") {
			t.Logf("line %d: SKIP: this host has no controller for memory", step.line)
			continue
		}
		k.play(step)
	}
}

// processes opens the processes of a list of pids, until the end of the test.
func (k *tasks) processes(pids []int) (all []*escape.Process) {
	k.t.Helper()
	for _, pid := range pids {
		p, err := escape.OpenProcess(pid)
		if err != nil {
			k.t.Fatal(err)
		}
		k.t.Cleanup(p.Close)
		all = append(all, p)
	}
	return all
}

// members are those of a server in a group of its own.
func (k *tasks) members(u host.User, name string) []*escape.Process {
	k.t.Helper()
	scopes := u.Scopes(name)
	if len(scopes) != 1 {
		k.t.Fatalf("scopes of %s: %q", name, scopes)
	}
	pids, err := escape.GroupPids(scopes[0] + "/payload")
	if err != nil || len(pids) != 2 {
		k.t.Fatalf("members of %s: %v, %v", name, pids, err)
	}
	return k.processes(pids)
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

func (k *tasks) live(all []*escape.Process) {
	k.t.Helper()
	for _, p := range all {
		if p.Ended(0) {
			k.t.Errorf("process %d has ended", p.PID)
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
func (k *tasks) servers(n int) []*escape.Process {
	k.t.Helper()
	var pids []int
	for _, word := range strings.Fields(k.sh(host.Root, "pgrep -x 'uvx|npx|mcp-server'")) {
		pid, _ := strconv.Atoi(word) // pgrep prints numbers
		pids = append(pids, pid)
	}
	if len(pids) != n {
		k.t.Errorf("%d processes of servers, want %d", len(pids), n)
	}
	all := k.processes(pids)
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
	k.live(k.leaked)
}

// holds checks the limits of a server.
func (k *tasks) holds(u host.User, name, memory, pids string) {
	k.t.Helper()
	scopes := u.Scopes(name)
	if len(scopes) != 1 {
		k.t.Fatalf("scopes of %s: %q", name, scopes)
	}
	for file, want := range map[string]string{"memory.max": memory, "pids.max": pids} {
		if have, err := os.ReadFile(scopes[0] + "/payload/" + file); want != "" && (err != nil || string(have) != want+"\n") {
			k.t.Errorf("%s of %s is %q (%v), not %s", file, name, have, err, want)
		}
	}
}

func (k *tasks) gatewayContained() {
	k.runs(host.Root, true, "mcp-server-time", "some-mcp-server")
	want := []string{`name="git"`, `name="some-mcp-server"`}
	if k.limited {
		k.holds(host.Root, "some-mcp-server", "1073741824", "")
		want = append(want, "mcpscope_server_memory_limit_bytes{")
	}
	body := ""
	const get = `exec 3<>/dev/tcp/127.0.0.1/9500 && printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	if !await(func() bool {
		out, err := k.command(host.Root, get).Output()
		body = string(out)
		return err == nil // once it listens
	}) {
		k.t.Error("no metrics are served")
	}
	for _, text := range want {
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
	k.live(k.clients) // whose client runs
	k.runs(host.Root, false, "mcp-server-time", "some-mcp-server")
	k.sh(host.Root, "systemctl is-active my-gateway")
	k.endClient(false)
	k.gone(k.clients)
	k.startClient()
	k.runs(host.Tester, false, "time", "git", "browser")
	k.servers(6 + 4) // the client's, and those that the gateway has after its restart
}
