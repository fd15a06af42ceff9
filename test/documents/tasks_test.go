// SPDX-License-Identifier: Apache-2.0

package documents

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

const tasksFile = "docs/operate/tasks.md"

// mostCommands is how many commands each task may take.
var mostCommands = map[string]int{
	"Make the servers of Claude Code safe, and see them":         4,
	"Contain a gateway's service, with limits, metrics and logs": 4, // `mcpscope logs` may take journalctl's place
	"Find who eats the memory, limit it, and stop it":            3,
	"What happened to the browser last night?":                   1,
	"Find yesterday's leak, and end it":                          2,
	"Uninstall, with clients that go on as they were":            3,
}

var severalCommands = regexp.MustCompile(`&&|[;|]`)

// No task takes more commands than it may, and no line has several.
func TestTasksAreShort(t *testing.T) {
	seen := 0
	for _, section := range strings.Split(text(t, tasksFile), "\n## ")[1:] {
		title, rest, _ := strings.Cut(section, "\n")
		most, known := mostCommands[title]
		if !known {
			t.Errorf("nobody knows how many commands %q may take", title)
			continue
		}
		seen++
		count := 0
		for _, step := range steps(rest) {
			if step.does != "" {
				continue
			}
			count++
			line, _, _ := strings.Cut(step.command, "\n")
			if step.notRun != "" || severalCommands.MatchString(line) {
				t.Errorf("%s: %s: not run, or several commands", title, line)
			}
		}
		if count == 0 || count > most {
			t.Errorf("%s: %d commands, of at most %d", title, count, most)
		}
	}
	if seen != len(mostCommands) {
		t.Errorf("%d tasks of %d", seen, len(mostCommands))
	}
}

const threeServers = `{
  "theme": "dark",
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "browser": {"command": "npx", "args": ["-y", "hungry-browser-server"]}
  }
}
`

// Each task does what it is for, by the kernel's word and the manager's.
func TestTasks(t *testing.T) {
	if !escape.Full() {
		t.Skip("a leak is one after ten seconds: make test-full, make test-vm")
	}
	k := &tasks{stage: stage{t: t, host: host.Current(t)}}
	k.checks = map[string]func(){
		"yesterday a client without mcpscope was killed": k.leave,
		"three servers are in groups of their own":       k.contained,
		"the gateway's servers are limited and measured": k.gatewayContained,
		"the browser is limited":                         k.browserLimited,
		"the browser is gone, and no other":              k.browserGone,
		"the leak is gone, and nothing else":             k.leakGone,
		"mcpscope is gone, and clients work":             k.uninstalled,
	}
	k.files = k.list()
	k.set()
	t.Cleanup(func() {
		k.end("kill")
		for _, a := range k.actors() { // those whose client had no mcpscope
			a.Signal(unix.SIGKILL)
		}
		_ = os.RemoveAll("/etc/systemd/system/multi-user.target.wants/mcpscope-metrics.service")
	})
	k.limited = strings.Contains(" "+k.sh(host.Tester, "cat $(findmnt -n -o TARGET -t cgroup2 | head -n 1)/cgroup.controllers")+" ", "memory")
	for _, step := range steps(text(t, tasksFile)) {
		if !k.limited && (strings.HasPrefix(step.command, "mcpscope set ") || step.does == "the browser is limited") {
			t.Logf("line %d: SKIP: no controller for memory on this host", step.line)
			continue
		}
		k.play(step)
	}
}

// tasks is a stage with what is known of it so far.
type tasks struct {
	stage
	files                             []string // before mcpscope was installed
	limited                           bool     // the host has a controller for memory
	leaked, clients, browser, gateway []actor
}

// actor is a process of a server, or of a package runner that has started one.
type actor struct {
	*escape.Process
	name, group string
}

var played = []string{"uvx", "npx", "mcp-server"}

// actors are those that run and are in none of the lists.
func (k *tasks) actors(without ...[]actor) (all []actor) {
	k.t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, dir := range dirs {
		comm, err := os.ReadFile(dir + "/comm")
		name := strings.TrimSpace(string(comm))
		if err != nil || !slices.Contains(played, name) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "%d", &pid); err != nil {
			k.t.Fatal(err)
		}
		if slices.ContainsFunc(slices.Concat(without...), func(a actor) bool { return a.PID == pid && !a.Ended(0) }) {
			continue
		}
		p, err := escape.OpenProcess(pid)
		if err != nil {
			continue // it has ended
		}
		groups, err := os.ReadFile(dir + "/cgroup")
		if err != nil || p.Ended(0) {
			p.Close()
			continue
		}
		k.t.Cleanup(p.Close)
		_, group, _ := strings.Cut("\n"+string(groups), "\n0::")
		all = append(all, actor{p, name, strings.TrimSpace(group)})
	}
	return all
}

// await waits for a number of actors that are in none of the lists.
func (k *tasks) await(n int, fit func([]actor) bool, without ...[]actor) (all []actor) {
	k.t.Helper()
	for deadline := time.Now().Add(patience); ; escape.PollFor(10 * time.Millisecond) {
		all = k.actors(without...)
		if len(all) == n && fit(all) {
			return all
		}
		if time.Now().After(deadline) {
			k.t.Errorf("%d processes of servers, not %d, or not where they belong: %v", len(all), n, all)
			return all
		}
	}
}

func anywhere([]actor) bool { return true }

func (k *tasks) live(when string, lists ...[]actor) {
	k.t.Helper()
	for _, a := range slices.Concat(lists...) {
		if a.Ended(0) {
			k.t.Errorf("%s: %s[%d] has ended", when, a.name, a.PID)
		}
	}
}

func (k *tasks) gone(when string, lists ...[]actor) {
	k.t.Helper()
	for _, a := range slices.Concat(lists...) {
		if !a.Ended(patience) {
			k.t.Errorf("%s: %s is left", when, escape.Describe(a.PID))
		}
	}
}

// leave has a client that runs without mcpscope leave its servers.
func (k *tasks) leave() {
	k.sh(host.Tester, "cat >~/.claude.json <<'END'\n"+threeServers+"END")
	k.direct(step{does: "start claude"})
	k.leaked = k.await(6, anywhere)
	k.end("kill")
	k.live("its client was killed", k.leaked)
}

// serverOf has the name of a server in the path of its group.
var serverOf = regexp.MustCompile(`/mcp\.slice/mcp-([a-z-]+)-[a-z0-9]{8}\.scope/payload$`)

// inGroups tells whether each of these servers has two processes in a group of its own.
func inGroups(all []actor, names ...string) bool {
	groups := map[string]int{}
	for _, a := range all {
		if m := serverOf.FindStringSubmatch(a.group); m != nil && slices.Contains(names, m[1]) {
			groups[a.group]++
		}
	}
	return len(groups) == len(names) && !slices.ContainsFunc(all, func(a actor) bool { return groups[a.group] != 2 })
}

func (k *tasks) contained() {
	k.clients = k.await(6, func(all []actor) bool { return inGroups(all, "time", "git", "browser") }, k.leaked)
	for _, a := range k.clients {
		if strings.Contains(a.group, "/mcp-browser-") {
			k.browser = append(k.browser, a)
		}
	}
	k.clients = slices.DeleteFunc(k.clients, func(a actor) bool { return slices.Contains(k.browser, a) })
}

// holds checks a file of the actors' groups.
func (k *tasks) holds(file, want string, all []actor) {
	k.t.Helper()
	for _, a := range all {
		if have := k.sh(host.Root, "cat $(findmnt -n -o TARGET -t cgroup2 | head -n 1)"+a.group+"/"+file); have != want+"\n" {
			k.t.Errorf("%s of %s is %q, not %s", file, a.group, have, want)
		}
	}
}

func (k *tasks) gatewayContained() {
	k.gateway = k.await(4, func(all []actor) bool { return inGroups(all, "mcp-server-time", "some-mcp-server") }, k.leaked, k.clients, k.browser)
	want := []string{`name="git"`, `name="some-mcp-server"`}
	if k.limited {
		k.holds("memory.max", "1073741824", k.gateway)
		want = append(want, "mcpscope_server_memory_limit_bytes{")
	}
	client := http.Client{Timeout: patience}
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); escape.PollFor(10 * time.Millisecond) { // nothing tells when it listens
		var answer *http.Response
		if answer, err = client.Get("http://127.0.0.1:9500/metrics"); err != nil {
			continue
		}
		body, readErr := io.ReadAll(answer.Body)
		answer.Body.Close()
		for _, text := range want {
			if readErr != nil || !strings.Contains(string(body), text) {
				k.t.Errorf("metrics: %v, no %s in\n%s", readErr, text, body)
			}
		}
		return
	}
	k.t.Error(err)
}

func (k *tasks) browserLimited() {
	k.live("limited", k.browser)
	k.holds("memory.max", "536870912", k.browser)
	k.holds("pids.max", "100", k.browser)
}

func (k *tasks) browserGone() {
	k.gone("stopped", k.browser)
	k.live("another one was stopped", k.clients, k.gateway)
}

func (k *tasks) leakGone() {
	k.gone("leaks --stop", k.leaked)
	k.live("leaks were ended", k.clients, k.gateway)
}

func (k *tasks) uninstalled() {
	if file := k.sh(host.Tester, "cat ~/.claude.json"); file != threeServers {
		k.t.Errorf("the client's file is\n%s", file)
	}
	if left := k.sh(host.Tester, "find ~/.local/state/mcpscope -type f 2>/dev/null || :"); left != "" {
		k.t.Errorf("copies of the client's file are left: %s", left)
	}
	stay := []string{"/etc/mcpscope/mcpscope.toml", "/etc/systemd/system/my-gateway.service"} // settings that were changed
	for _, name := range cast {
		stay = append(stay, "/usr/local/bin/"+name)
	}
	slices.Sort(stay)
	left := slices.DeleteFunc(k.list(), func(file string) bool { _, found := slices.BinarySearch(k.files, file); return found })
	if !slices.Equal(left, stay) {
		k.t.Errorf("left are %q, not %q", left, stay)
	}
	if active := k.sh(host.Root, "systemctl is-active mcpscope-metrics || :"); active == "active\n" {
		k.t.Error("the metrics' service runs without its program")
	}

	k.live("mcpscope was uninstalled", k.clients) // whose client runs
	k.gone("its gateway was restarted", k.gateway)
	if state := k.sh(host.Root, "systemctl is-active my-gateway || :"); state != "active\n" {
		k.t.Errorf("the gateway's service is %s", state)
	}
	bare := k.await(4, func(all []actor) bool {
		return !slices.ContainsFunc(all, func(a actor) bool { return !strings.HasSuffix(a.group, "/my-gateway.service") })
	}, k.clients)
	k.end("end")
	k.gone("their client has ended", k.clients)
	k.direct(step{does: "start claude"})
	k.await(6, func(all []actor) bool {
		return !slices.ContainsFunc(all, func(a actor) bool { return serverOf.MatchString(a.group) })
	}, bare)
}

// list has the files that an installation may come to, sorted.
func (k *tasks) list() []string {
	files := strings.Fields(k.sh(host.Root, "find /usr/local /usr/lib/systemd /etc ! -type d"))
	slices.Sort(files)
	return files
}
