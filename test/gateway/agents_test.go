// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/agents"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
	"github.com/mcpscope/mcpscope/test/tmux"
)

const notesServer = `#!/bin/sh
echo $$ >server.pid
exec node '@CLIENTS/node/node_modules/@modelcontextprotocol/server-memory/dist/index.js'
`

// clientsWithAgents is clients, with the agents.
func clientsWithAgents(t *testing.T) string {
	t.Helper()
	if !escape.Full() {
		t.Skip("make test-full: the agents take 1.4 GB")
	}
	dir := clients(t)
	bed.Require(t, bed.Feature{Name: "the agents, by test/e2e/clients/setup", Missing: func() error {
		_, err := os.Stat(filepath.Join(dir, "agents"))
		return err
	}})
	return dir
}

// The promise of an agent in front, with real agents in a terminal, two at once: the servers of each are
// contained under their own names and projects. Below gateway only these end with it, and below run
// everything does, whatever ends first.
func TestAgentsInFront(t *testing.T) {
	dir := clientsWithAgents(t)
	for _, a := range agents.All {
		for _, way := range []string{"gateway", "run"} {
			t.Run(a.Name+" below "+way, func(t *testing.T) {
				program := filepath.Join(dir, "agents", "node_modules", a.Program)
				if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
					t.Skip("npm has it for x86-64 alone")
				}
				home := t.TempDir() // before the world, which kills all that still write to it
				w := newWorld(t)
				w.makeHome(home, a, dir)
				for _, ends := range [][2]string{{"exit", "kill mcpscope"}, {"kill agent", "close terminal"}} {
					var both []*inFront
					for i, project := range []string{"shop", "blog"} {
						both = append(both, w.inFront(a, way, home, project, program, ends[i]))
					}
					for _, s := range both {
						s.check()
					}
					for _, s := range both {
						s.end()
					}
				}
				w.clean()
			})
		}
	}
}

// makeHome makes the agent's home, with a server.
func (w *world) makeHome(home string, a agents.Agent, clients string) {
	w.T.Helper()
	err := a.MakeHome(home, strings.ReplaceAll(notesServer, "@CLIENTS", clients))
	if err != nil {
		w.T.Fatal(err)
	}
}

// inFront is an agent on a screen, behind mcpscope.
type inFront struct {
	agents.Agent
	*world
	way, project, ending string
	screen               *tmux.Screen
	first, server        *escape.Process // the pane's command, and the server
	sleep                string          // its argument, which no other has
}

// processWrapper is the way in which Claude Code itself starts its daemon and sessions below mcpscope.
const processWrapper = "CLAUDE_CODE_PROCESS_WRAPPER"

// nested is an alias in front of a script that has mcpscope in front, too.
const nested = "two gateways"

// inFront starts it, and returns when it takes input.
func (w *world) inFront(a agents.Agent, way, home, project, program, ending string) *inFront {
	w.T.Helper()
	s := &inFront{Agent: a, world: w, way: way, project: project, ending: ending}
	dir := filepath.Join(home, project)
	line := []string{binaries.mcpscope, way, "--backend", "cgroup", "--"}
	switch way {
	case processWrapper:
		line = nil
	case nested:
		line = []string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--", binaries.mcpscope, "gateway", "--"}
	}
	line = append(append(line, program), a.Args...)
	cmd := w.Command(append([]string{"env", "-C", dir, "sh", "-c", agents.Started, "sh"}, line...)...)
	cmd.Env = a.Environment(home, clients(w.T))
	if way == processWrapper {
		cmd.Env = append(cmd.Env, processWrapper+"="+binaries.mcpscope+" gateway --backend cgroup --")
	}
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	for _, file := range []string{"agent.pid", "server.pid"} {
		_ = os.Remove(filepath.Join(dir, file)) // of the session before
	}
	group := w.Unique("session")
	s.screen = tmux.Start(w.T, 120, 40, cmd, func() error { return escape.StartIn(group, cmd) })
	s.screen.Shows(a.Ready)
	s.first = w.processIn(filepath.Join(dir, "agent.pid"))
	s.server = w.processIn(filepath.Join(dir, "server.pid"))
	if s.first != nil {
		s.sleep = strconv.Itoa(100000 + s.first.PID)
	}
	return s
}

// processIn waits for a file with a pid, and returns nil if that process has ended.
func (w *world) processIn(file string) *escape.Process {
	w.T.Helper()
	err := escape.AwaitText(file, 4*escape.Patience, func(text string) bool { return strings.HasSuffix(text, "\n") })
	text, _ := os.ReadFile(file) // err is that of the wait
	pid, errPID := strconv.Atoi(strings.TrimSpace(string(text)))
	if err = errors.Join(err, errPID); err != nil {
		w.T.Fatal(err)
	}
	p, err := escape.OpenProcess(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(p.Close)
	return p
}

// listed is a server in the list.
type listed struct {
	Name    string
	Project string
	Client  struct {
		PID  int
		Name string
	}
	Launcher int `json:"launcher_pid"`
}

func (w *world) list() []listed {
	w.T.Helper()
	var all struct{ Servers []listed }
	if err := json.Unmarshal([]byte(w.run("ls", "--json")), &all); err != nil {
		w.T.Fatal(err)
	}
	return all.Servers
}

// check takes a turn, has the agent's shell leave a process, and reads the list.
func (s *inFront) check() {
	s.T.Helper()
	s.screen.Type("ping")
	s.screen.Shows("ping")
	s.enterUntil("PONG", s.shows("PONG"))
	isListed := func() bool {
		return slices.ContainsFunc(s.list(), func(l listed) bool {
			isOwn := s.way == "run" && l.Launcher == s.first.PID ||
				s.way == "gateway" && l.Client.PID == s.first.PID && l.Name == "notes"
			return isOwn && l.Project == s.project
		})
	}
	if !pace.Eventually(escape.Patience, isListed) {
		s.T.Errorf("it is not in the list with the project %s: %+v", s.project, s.list())
	}
	if s.NoShell {
		return
	}
	s.screen.Type("!")
	// an agent may kill what has not left its shell's session yet
	s.screen.Type(fmt.Sprintf("setsid -f sleep %s </dev/null >/dev/null 2>&1; until pgrep -f ^sleep.%s; do :; done", s.sleep, s.sleep))
	s.screen.Shows(s.sleep, s.sleep)
	s.enterUntil("process of its shell", s.sleeps)
}

func (s *inFront) shows(text string) func() bool {
	return func() bool { return strings.Contains(strings.Join(s.screen.Lines(), "\n"), text) }
}

// enterUntil presses Enter until something is done: an agent takes it for a line's end if it follows the text
// too soon.
func (s *inFront) enterUntil(what string, done func() bool) {
	s.T.Helper()
	if !pace.Eventually(2*escape.Patience, func() bool {
		if done() {
			return true
		}
		s.screen.Press("Enter")
		return pace.Eventually(time.Second, done)
	}) {
		s.T.Fatalf("no %s, but %s", what, strings.Join(s.screen.Lines(), "\n"))
	}
}

// sleeps reports whether the process runs that the agent's shell has left.
func (s *inFront) sleeps() bool { return s.sleeper() != nil }

func (s *inFront) sleeper() *escape.Process {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range lines {
		text, _ := os.ReadFile(file) // it may have ended
		if string(text) != "sleep\x00"+s.sleep+"\x00" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // it is a number
		p, err := escape.OpenProcess(pid)
		if err == nil {
			s.T.Cleanup(p.Close)
			return p
		}
	}
	return nil
}

// end ends the session, and checks which processes stay.
func (s *inFront) end() {
	s.T.Helper()
	left := s.sleeper()
	switch s.ending {
	case "exit":
		s.leaveShellMode()
		s.screen.Type(s.Quit)
		s.screen.Shows(s.Quit)
		s.enterUntil("end", s.shows("[it ended with "))
	case "kill agent":
		s.killAgent()
	case "kill mcpscope":
		s.mcpscope().Signal(unix.SIGKILL)
	case "close terminal":
		s.screen.Close()
	}
	lives := s.way == "gateway" && s.ending == "kill mcpscope"
	switch {
	case lives: // as if nothing had happened
		s.screen.Type("x")
		if s.server.Ended(0) || s.first.Ended(0) {
			s.T.Errorf("%s: agent or server have ended", s.ending)
		}
		s.killAgent()
	case !s.first.Ended(4 * escape.Patience):
		s.T.Errorf("%s: the agent's command lives: %s", s.ending, escape.Describe(s.first.PID))
	}
	if !s.server.Ended(escape.Patience) {
		s.T.Errorf("%s: the server lives: %s", s.ending, escape.Describe(s.server.PID))
	}
	if left == nil {
		return
	}
	if s.way == "run" && !left.Ended(escape.Patience) {
		s.T.Errorf("%s: what its shell left lives: %s", s.ending, escape.Describe(left.PID))
	}
	if s.way == "gateway" && left.Ended(0) {
		s.T.Errorf("%s: what its shell left on purpose has ended", s.ending)
	}
	left.Signal(unix.SIGKILL)
}

// leaveShellMode is for agents that stay in it. The next key would be one with Escape if it came at once.
func (s *inFront) leaveShellMode() {
	s.T.Helper()
	isIn := func(lines []string) bool {
		return strings.Contains(strings.Join(lines, "\n"), "shell mode enabled")
	}
	if isIn(s.screen.Lines()) {
		s.screen.Press("Escape")
		s.screen.Until("end of the shell mode", func(lines []string) bool { return !isIn(lines) })
	}
}

// killAgent kills the agent. Below gateway, the process that has started the server may be another one: it is the
// server's client until it is killed, too.
func (s *inFront) killAgent() {
	s.T.Helper()
	if s.way != "gateway" {
		s.agent().Signal(unix.SIGKILL)
		return
	}
	s.killClient(s.first)
}

// killClient kills an agent's process, and the one that has started the server, if that is another one.
func (s *inFront) killClient(agent *escape.Process) {
	s.T.Helper()
	client := s.parentOfServer()
	agent.Signal(unix.SIGKILL)
	if client.PID == agent.PID {
		return
	}
	if !agent.Ended(escape.Patience) {
		s.T.Errorf("%s: a killed process lives: %s", s.ending, escape.Describe(agent.PID))
	}
	client.Signal(unix.SIGKILL)
}

func (s *inFront) parentOfServer() *escape.Process {
	s.T.Helper()
	st, err := proc.ReadStat(s.server.PID)
	if err != nil {
		s.T.Fatal(err)
	}
	p, err := escape.OpenProcess(st.PPID)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(p.Close)
	return p
}

// agent is the agent's first process.
func (s *inFront) agent() *escape.Process {
	s.T.Helper()
	if s.way == "gateway" {
		return s.first
	}
	var all struct {
		Servers []struct{ Tree []struct{ PID int } }
	}
	text := s.run("inspect", "--json", s.runID())
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		s.T.Fatal(err)
	}
	p, err := escape.OpenProcess(all.Servers[0].Tree[0].PID)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(p.Close)
	return p
}

// runID is the id of the group that the whole session is in.
func (s *inFront) runID() string {
	s.T.Helper()
	var all struct {
		Servers []struct {
			ID       string
			Launcher int `json:"launcher_pid"`
		}
	}
	if err := json.Unmarshal([]byte(s.run("ls", "--json")), &all); err != nil {
		s.T.Fatal(err)
	}
	for _, one := range all.Servers {
		if one.Launcher == s.first.PID {
			return one.ID
		}
	}
	s.T.Fatal("it is not in the list")
	return ""
}

// mcpscope is the launcher, or the gateway's watcher.
func (s *inFront) mcpscope() *escape.Process {
	s.T.Helper()
	if s.way == "run" {
		return s.first
	}
	return (&Gateway{t: s.T, PID: s.first.PID}).Watcher()
}

// Daemons of agents below gateway: their servers are contained, outlive the agent, and end with the daemon, or
// with the background session.
func TestAgentsDaemons(t *testing.T) {
	dir := clientsWithAgents(t)
	for _, c := range []struct {
		agent agents.Agent
		args  []string
		ready string
		way   string
	}{
		{agents.All[1], nil, agents.All[1].Ready, "gateway"},
		{agents.All[0], []string{"--bg", "say hello"}, "backgrounded", "gateway"},
		{agents.All[0], []string{"--bg", "say hello"}, "backgrounded", processWrapper},
		{agents.All[0], []string{"--bg", "say hello"}, "backgrounded", nested},
	} {
		t.Run(c.agent.Name+" by "+c.way, func(t *testing.T) {
			a := c.agent
			a.Args = c.args
			a.Ready = c.ready
			program := filepath.Join(dir, "agents", "node_modules", a.Program)
			if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
				t.Skip("npm has it for x86-64 alone")
			}
			home := t.TempDir() // as above
			w := newWorld(t)
			w.makeHome(home, a, dir)
			s := w.inFront(a, c.way, home, "shop", program, "")
			var own listed
			if !pace.Eventually(escape.Patience, func() bool {
				all := w.list()
				i := slices.IndexFunc(all, func(l listed) bool { return l.Name == "notes" && l.Project == "shop" })
				if i >= 0 {
					own = all[i]
				}
				return i >= 0 && (s.first == nil || own.Client.PID != s.first.PID)
			}) {
				t.Fatalf("its server is not that of the daemon: %+v", w.list())
			}
			if s.first != nil {
				s.first.Signal(unix.SIGKILL)
				s.first.Ended(escape.Patience)
			}
			notes := w.notes("ls")
			if c.way != processWrapper && !strings.Contains(notes, "its daemon "+own.Client.Name) {
				t.Errorf("ls does not note the daemon: %s", notes)
			}
			if len(w.list()) == 0 || s.server.Ended(0) {
				t.Errorf("the daemon's server ended with the agent: %+v", w.list())
			}
			daemon, err := escape.OpenProcess(own.Client.PID)
			if err != nil {
				t.Fatal(err)
			}
			defer daemon.Close()
			s.killClient(daemon)
			if !s.server.Ended(escape.Patience) {
				t.Error("the server outlives the daemon")
			}
		})
	}
}
