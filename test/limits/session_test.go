// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A session is an agent with three servers, all of them hungry, below a shell.
type session struct {
	*escape.Talk
	backend backend
	agent   int
	dir     string // its cgroup
}

var hungryServers = []string{"one", "two", "three"}

// shell starts the agent, as in a terminal.
var shell = []string{"sh", "-c", `"$@"; echo the shell lives: $?`, "sh"}

func (b backend) session(t *testing.T, flags ...string) *session {
	t.Helper()
	s := &session{Talk: b.startSession(t, flags...), backend: b}
	first := s.Line()
	if n, _ := fmt.Sscan(first, new(string), &s.agent); n != 2 {
		t.Fatalf("the agent says %q; stderr: %s", first, s.Said())
	}
	own, err := bed.ProcessPath(s.agent)
	if err != nil {
		t.Fatal(err)
	}
	s.dir = "/sys/fs/cgroup" + path.Dir(own)
	if !strings.HasPrefix(path.Base(s.dir), "mcp-session_hungry_") {
		t.Fatalf("the agent is in %s", own)
	}
	return s
}

func (b backend) startSession(t *testing.T, flags ...string) *escape.Talk {
	t.Helper()
	b.wrap = append(append([]string{}, shell...), b.wrap...)
	line := append([]string{"gateway", "--backend", b.name, "--match", "hungry-*"}, flags...)
	line = append(line, "--", host.Shared+"/hungry", "agent")
	if b.owner != "" {
		b.user = host.Root // of the manager
	}
	cmd := b.command(t, append(line, hungryServers...)...)
	return escape.StartTalk(t, cmd, cmd.Start)
}

// takes has the agent, "self", or a server take memory, and returns the answer.
func (s *session) takes(name string, megabytes int) string {
	s.Tell(name + " " + strconv.Itoa(megabytes))
	return s.Line()
}

// alive lists the servers that answer.
func (s *session) alive() (names []string) {
	for _, name := range hungryServers {
		if s.takes(name, 0) != name+" died" {
			names = append(names, name)
		}
	}
	return names
}

// end closes the agent's stdin, and fails the test unless the shell lives and the session is removed.
func (s *session) end(t *testing.T) {
	t.Helper()
	_ = s.Stdin.Close() // whether it reads or not
	s.Hear("the shell lives: 0")
	if err := s.Wait(); err != nil {
		t.Error(err)
	}
	if err := escape.AwaitRemoval(s.dir, escape.Patience); err != nil {
		t.Errorf("%v: %s", err, escape.Tree(s.dir))
	}
}

// sessionFlags are the limits of a session.
var sessionFlags = []string{
	"--session-set", "memory.max=150M", "--session-set", "pids.max=300", "--session-set", "memory.swap.max=0",
}

// listedServers are those that ls shows.
func (b backend) listedServers(t *testing.T) (names []string, guard, watcher int) {
	t.Helper()
	var all struct {
		Servers []struct {
			Name     string
			Guard    int `json:"guard_pid"`
			Launcher int `json:"launcher_pid"`
		}
	}
	if err := json.Unmarshal([]byte(b.succeed(t, "ls", "--json")), &all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all.Servers {
		if strings.HasPrefix(v.Name, "hungry-") {
			names = append(names, strings.TrimPrefix(v.Name, "hungry-"))
			guard = v.Guard
			watcher = v.Launcher
		}
	}
	return names, guard, watcher
}

// awaitListed waits until ls shows so many servers.
func (b backend) awaitListed(t *testing.T, count int) {
	t.Helper()
	var names []string
	shown := pace.Eventually(escape.Patience, func() bool {
		names, _, _ = b.listedServers(t)
		return len(names) == count
	})
	if !shown {
		t.Errorf("ls shows %q, want %d servers", names, count)
	}
}

// exhaust has the agent and its servers allocate more than the session may have: one or two of the servers are
// killed. It returns those that are alive.
func (s *session) exhaust(t *testing.T) (alive []string) {
	t.Helper()
	if got := s.takes("self", 50); got != "self has 50" {
		t.Fatalf("the agent says %q", got)
	}
	for _, name := range hungryServers {
		s.takes(name, 30)
	}
	alive = s.alive()
	if len(alive) == 0 || len(alive) == len(hungryServers) {
		t.Errorf("alive are %q", alive)
	}
	return alive
}

// When a session is out of memory the kernel kills a server, and not the agent, which is larger. That is
// seen in ls and in the journal.
func TestSessionOutOfMemory(t *testing.T) {
	on(t, ofSessions(), func(t *testing.T, b backend) {
		s := b.session(t, sessionFlags...)
		for file, want := range map[string]string{
			"memory.max": "157286400", "pids.max": "300", "memory.swap.max": "0",
		} {
			if got, err := os.ReadFile(s.dir + "/" + file); err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%s has %q, want %s (%v)", file, got, want, err)
			}
		}
		b.awaitListed(t, len(hungryServers))
		alive := s.exhaust(t)
		b.awaitListed(t, len(alive))
		if journaled() {
			awaitLogged(t, b, "its session was out of memory (the limit of the agent and all its servers is 150 MB)")
		}
		s.end(t)
	}, "memory", "pids")
}

// Commands that name a session act on the agent and its servers together. A limit that is set later prefers
// the agent, too.
func TestSessionIsActedOn(t *testing.T) {
	on(t, ofSessions(), func(t *testing.T, b backend) {
		s := b.session(t, "--session", "--session-set", "pids.max=300", "--session-set", "memory.swap.max=0")
		b.awaitListed(t, len(hungryServers))
		id := strings.TrimSuffix(s.dir[strings.LastIndexByte(s.dir, '_')+1:], ".slice")
		out := b.succeed(t, "set", id, "memory.max=150M", "pids.max=200")
		if !strings.Contains(out, "memory.max=157286400, was max") || !strings.Contains(out, "pids.max=200, was 300") {
			t.Errorf("set: %s", out)
		}
		alive := s.exhaust(t)
		b.awaitListed(t, len(alive))
		b.succeed(t, "freeze", id)
		if text, err := os.ReadFile(s.dir + "/cgroup.events"); err != nil || !strings.Contains(string(text), "frozen 1") {
			t.Errorf("it is not frozen: %s (%v)", text, err)
		}
		b.succeed(t, "thaw", id)
		if again := s.alive(); len(again) != len(alive) {
			t.Errorf("alive are %q, want %q", again, alive)
		}
		b.succeed(t, "set", id, "memory.max=max")
		b.succeed(t, "stop", id)
		const stopped = "the shell lives: 143"
		if said := s.Line(); said != stopped && b.owner == "" { // systemd-run has a status of its own
			t.Errorf("%q, want %q", said, stopped)
		}
		_ = s.Wait() // as above
		if err := escape.AwaitRemoval(s.dir, escape.Patience); err != nil {
			t.Errorf("%v: %s", err, escape.Tree(s.dir))
		}
		b.awaitListed(t, 0)
	}, "memory", "pids")
}

// awaitLogged waits until root's logs have a text.
func awaitLogged(t *testing.T, b backend, text string) {
	t.Helper()
	b.user = host.Root
	var logs string
	if !pace.Eventually(escape.Patience, func() bool {
		logs = b.succeed(t, "logs", "--all-users")
		return strings.Contains(logs, text)
	}) {
		t.Errorf("logs do not have %q: %s", text, logs)
	}
}

// Where guard and watcher were killed, a sweep removes the session when no process is in it any more.
func TestSessionIsSwept(t *testing.T) {
	on(t, ofSessions(), func(t *testing.T, b backend) {
		s := b.session(t, sessionFlags...)
		b.awaitListed(t, len(hungryServers))
		_, guard, watcher := b.listedServers(t)
		agent := process(t, s.agent)
		if err := escape.KillTogether(process(t, guard), process(t, watcher)); err != nil {
			t.Fatal(err)
		}
		b.succeed(t, "sweep", "--quiet")
		if agent.Ended(0) {
			t.Error("the agent is dead")
		}
		if _, err := os.Stat(s.dir); err != nil {
			t.Errorf("a sweep has removed the session of an agent that lives: %v", err)
		}
		_ = s.Stdin.Close() // it ends with that
		s.Hear("the shell lives: 0")
		_ = s.Wait() // as it should
		swept := pace.Eventually(escape.Patience, func() bool {
			b.succeed(t, "sweep", "--quiet")
			_, err := os.Stat(s.dir)
			return err != nil
		})
		if !swept {
			t.Errorf("the session is left: %s", escape.Tree(s.dir))
		}
	}, "memory", "pids")
}

// process opens one by its pid.
func process(t *testing.T, pid int) *escape.Process {
	t.Helper()
	p, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Where a session can't have its limits, its agent runs without one, and a note says so. With --require it is
// not started.
func TestSessionIsRefused(t *testing.T) {
	for _, b := range backends() {
		if b.has("pids") {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			if b.name == "cgroup" {
				withhold(t)
			}
			b.runsWithoutSession(t)
			s := b.startSession(t, "--session-set", "pids.max=300", "--require")
			s.Hear("the shell lives: 125")
			_ = s.Wait() // it has said how
			const want = "mcpscope: "
			if said := s.Said(); !strings.HasPrefix(said, want) || strings.Count(said, "\n") > 2 {
				t.Errorf("stderr: %s", said)
			}
			wantNoSession(t)
		})
	}
}

func (b backend) runsWithoutSession(t *testing.T) {
	t.Helper()
	s := b.startSession(t, "--session-set", "pids.max=300")
	if first := s.Line(); !strings.HasPrefix(first, "up ") {
		t.Errorf("the agent says %q", first)
	}
	_ = s.Stdin.Close() // it ends with that
	s.Hear("the shell lives: 0")
	_ = s.Wait() // it has said how
	const note = "mcpscope: note: \"" + host.Shared + "/hungry\" and its servers are in no session, without pids.max=300: "
	if said := s.Said(); strings.Count(said, note) != 1 {
		t.Errorf("stderr: %s", said)
	}
	wantNoSession(t)
}

func wantNoSession(t *testing.T) {
	t.Helper()
	for _, slice := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if tree := escape.Tree(slice); strings.Contains(tree, "mcp-session_") {
			t.Errorf("left: %s", tree)
		}
	}
}
