// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/agents"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// agentIdle is --idle-freeze for agents: working ones drew something every nine seconds at least, and the kernel
// notes that up to eight seconds late.
const agentIdle = 20 * time.Second

// freezesEnv is how often each agent is frozen.
const freezesEnv = "TESTS_AGENT_FREEZES"

// agentPatience is for agents, which take a minute to start on a busy machine.
const agentPatience = 16 * escape.Patience

// screenEach is between two readings of a screen, each of which starts a process.
const screenEach = 50 * time.Millisecond

// An idleAgent is an agent below mcpscope run --idle-freeze, in a shell with job control.
type idleAgent struct {
	agents.Agent
	*world
	screen  *tmux.Screen
	shell   *escape.Process
	project string
	group   string
	turns   int
	latency []time.Duration // from a key to the screen
}

// Real agents are frozen when they are idle, with their server, and lose nothing: keys, the size of the window, ^C, ^Z,
// turns, calls of a tool, and the end of the terminal. They are not frozen in a turn, nor while a program runs in the
// background.
func TestIdleAgents(t *testing.T) {
	dir := clientsWithAgents(t)
	for _, a := range agents.All {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(dir, "agents", "node_modules", a.Program)
			if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
				t.Skip("npm has it for x86-64 alone")
			}
			home := t.TempDir() // before the world, which kills all that still write to it
			s := &idleAgent{Agent: a, world: newWorld(t)}
			s.makeHome(home, a, dir)
			s.start(home, program)
			s.logMemory("awake")
			for count := range escape.Number(freezesEnv, 5) {
				s.freeze(count)
			}
			s.worksInATurn()
			s.callsATool()
			s.runsTasks()
			s.awaitIdle()
			t.Logf("from a key to the screen: %v", s.latency)
			s.screen.Close()
			if !s.shell.Ended(agentPatience) {
				t.Error("the shell outlives its terminal")
			}
			s.clean()
		})
	}
}

// start starts it, and returns when it takes input.
func (s *idleAgent) start(home, program string) {
	s.T.Helper()
	s.project = filepath.Join(home, "shop")
	line := append([]string{binaries.mcpscope, "run", "--backend", "cgroup", "--idle-freeze", agentIdle.String(), "--", program}, s.Args...)
	cmd := s.Command("env", "-C", s.project, "sh", "-c", agents.Started, "sh", "bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(s.Environment(home, clients(s.T)), "PS1=SHELL> ")
	cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNET}
	group := s.Unique("session")
	s.screen = tmux.Start(s.T, 120, 40, cmd, func() error { return escape.StartIn(group, cmd) })
	s.screen.Shows("SHELL>")
	s.shell = s.processIn(filepath.Join(s.project, "agent.pid"))
	s.screen.Type(strings.Join(line, " "))
	s.screen.Press("Enter")
	s.eventually("input", s.shows(s.Ready))
	s.processIn(filepath.Join(s.project, "server.pid"))
	s.group = escape.Servers(s.slice(), "*", "*")[0]
}

func (s *idleAgent) shows(text string) func() bool {
	return func() bool {
		time.Sleep(screenEach)
		return strings.Contains(strings.Join(s.screen.Lines(), "\n"), text)
	}
}

func (s *idleAgent) eventually(what string, done func() bool) {
	s.T.Helper()
	if !pace.Eventually(agentPatience, done) {
		notes, _ := os.ReadFile(s.group + "/cgroup.events")
		s.T.Fatalf("%s: no %s, but %s\n%s", s.Name, what, strings.Join(s.screen.Lines(), "\n"), notes)
	}
}

func (s *idleAgent) awaitIdle() {
	s.T.Helper()
	if !pace.Eventually(agentPatience, s.isFrozen) {
		id := s.group[strings.LastIndex(s.group, "-")+1:]
		s.T.Fatalf("%s is not idle:\n%s", s.Name, s.run("inspect", id))
	}
}

func (s *idleAgent) isFrozen() bool {
	text, err := os.ReadFile(filepath.Join(s.group, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "frozen 1")
}

// typed is no part of an agent's own screen.
const typed = "zqzq"

// freeze awaits a freeze, and wakes the agent in one of five ways.
func (s *idleAgent) freeze(count int) {
	s.T.Helper()
	way := []struct {
		name string
		do   func()
	}{
		{"a key", s.wakeByKey}, {"another size", s.wakeBySize}, {"^C", s.wakeByInterrupt}, {"^Z", s.wakeByStop},
		{"a turn", func() { s.turn("ping") }},
	}[count%5]
	if way.name == "^C" { // it deletes text
		s.write("before ^C")
	}
	s.awaitIdle()
	if count == 0 {
		s.logMemory("frozen")
	}
	way.do()
	s.T.Logf("%s: woken by %s", s.Name, way.name)
}

func (s *idleAgent) wakeByKey() {
	s.T.Helper()
	began := time.Now()
	s.screen.Type(typed[:1])
	s.eventually("wake by a key", func() bool { return !s.isFrozen() })
	s.write("after a key")
	s.latency = append(s.latency, time.Since(began).Round(time.Millisecond))
	s.deleteText()
}

func (s *idleAgent) wakeBySize() {
	s.T.Helper()
	s.turns++ // another size each time
	s.screen.Resize(110+s.turns, 40)
	s.eventually("wake by another size", func() bool { return !s.isFrozen() })
	s.write("after another size")
	s.deleteText()
}

func (s *idleAgent) wakeByInterrupt() {
	s.T.Helper()
	s.screen.Press("C-c")
	s.eventually("interrupt", func() bool { return !s.shows(typed)() })
}

// wakeByStop has the shell continue an agent that stops.
func (s *idleAgent) wakeByStop() {
	s.T.Helper()
	s.screen.Press("C-z")
	s.eventually("wake by ^Z", func() bool { return !s.isFrozen() })
	if pace.Eventually(5*time.Second, s.shows("Stopped")) {
		s.screen.Type("clear; fg")
		s.screen.Press("Enter")
		s.eventually("return", s.isRaw)
	}
	s.eventually("text after ^Z", func() bool { // Codex discards keys that come before it has drawn
		s.screen.Type(typed)
		return pace.Eventually(time.Second, s.shows(typed))
	})
	s.deleteText()
}

// isRaw reports whether the agent has the terminal: the shell leaves ^C to it.
func (s *idleAgent) isRaw() bool {
	terminal, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/0", s.shell.PID), os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer terminal.Close()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	return err == nil && mode.Lflag&unix.ISIG == 0
}

// write types a text that the agent shows.
func (s *idleAgent) write(when string) {
	s.T.Helper()
	s.screen.Type(typed)
	s.eventually("text "+when, s.shows(typed))
}

// deleteText deletes it key by key: an agent may take several at once for something else.
func (s *idleAgent) deleteText() {
	s.T.Helper()
	s.eventually("deletion", func() bool {
		if !s.shows(typed[:2])() {
			return true
		}
		s.screen.Press("BSpace")
		return pace.Eventually(time.Second/2, func() bool { return !s.shows(typed[:2])() })
	})
	s.screen.Press("BSpace")
}

// turn takes a turn with the model.
func (s *idleAgent) turn(order string) {
	s.T.Helper()
	s.turns++
	s.ask(order+strconv.Itoa(s.turns), s.shows("PONG"+strconv.Itoa(s.turns)))
}

// ask sends a text to the model, and waits for the answer. An agent takes Enter for a line's end if it follows the text
// too soon. No key comes in the turn.
func (s *idleAgent) ask(text string, isAnswered func() bool) {
	s.T.Helper()
	s.screen.Type(text)
	s.eventually("text", s.shows(text))
	isAsked := func() bool {
		asked, _ := os.ReadFile(filepath.Join(s.project, "asked")) // none yet
		return strings.Contains(string(asked), text+"\n")
	}
	s.eventually("question", func() bool {
		s.screen.Press("Enter")
		return pace.Eventually(3*time.Second, isAsked)
	})
	s.eventually("answer", isAnswered)
}

// worksInATurn has the model think for longer than an agent has to be idle.
func (s *idleAgent) worksInATurn() {
	s.T.Helper()
	seconds := int(2 * agentIdle / time.Second)
	text := "slow" + strconv.Itoa(seconds)
	s.ask(text, func() bool {
		if s.isFrozen() {
			s.T.Error("it is frozen in a turn")
		}
		return s.shows("PONG" + strconv.Itoa(seconds))()
	})
}

func (s *idleAgent) callsATool() {
	s.T.Helper()
	s.awaitIdle()
	s.turns++
	s.ask("call"+strconv.Itoa(s.turns), s.shows("CALLED"+strconv.Itoa(s.turns)))
}

// runsTasks has the agent start programs that outlive the command, and ends them.
func (s *idleAgent) runsTasks() {
	s.T.Helper()
	number := strconv.Itoa(20000 + s.shell.PID%20000)
	tasks := map[string][]string{"sleep": {"sleep", number}, "serve": {"python3", "-m", "http.server", number}}
	for order, task := range tasks {
		if s.NoShell {
			s.ask(order+number, s.shows("STARTED"+number))
		} else {
			s.runByShell(task)
		}
		line := strings.Join(task, " ")
		var started *escape.Process
		s.eventually("process of "+line, func() bool {
			started = find(task)
			return started != nil
		})
		reason := "not idle: it runs " + task[0]
		if err := escape.AwaitNote(s.group, reason, agentPatience); err != nil {
			s.T.Errorf("%s: %v", line, err)
		}
		if s.isFrozen() {
			s.T.Errorf("frozen with %s", line)
		}
		started.Signal(unix.SIGKILL)
		started.Close()
		s.T.Logf("%s: awake with %s", s.Name, line)
	}
}

// runByShell runs a command by the agent's shell mode.
func (s *idleAgent) runByShell(task []string) {
	s.T.Helper()
	s.screen.Type("!")
	s.screen.Type("setsid -f " + strings.Join(task, " ") + " </dev/null >/dev/null 2>&1")
	s.eventually("command", s.shows(task[len(task)-1]))
	s.eventually("task", func() bool {
		s.screen.Press("Enter")
		return pace.Eventually(time.Second, func() bool {
			started := find(task)
			if started == nil {
				return false
			}
			started.Close()
			return true
		})
	})
	s.screen.Press("Escape")
}

// find finds the process with a command line, in this sandbox.
func find(argv []string) *escape.Process {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, file := range lines {
		text, _ := os.ReadFile(file) // it may have ended
		if strings.Contains(string(text), strings.Join(argv[1:], "\x00")+"\x00") && strings.Count(string(text), "\x00") == len(argv) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file))) // it is a number
			if p, err := escape.OpenProcess(pid); err == nil {
				return p
			}
		}
	}
	return nil
}

// logMemory logs the PSS of all members. That of frozen ones is reclaimed step by step.
func (s *idleAgent) logMemory(when string) {
	sum, list := s.memory()
	for before := sum + 1; s.isFrozen() && sum < before; time.Sleep(2 * time.Second) {
		before = sum
		sum, list = s.memory()
	}
	s.T.Logf("%s, %s: PSS in MB %d:%s", s.Name, when, sum, list)
}

func (s *idleAgent) memory() (sum int, list string) {
	text, _ := os.ReadFile(filepath.Join(s.group, "cgroup.procs"))
	for _, pid := range strings.Fields(string(text)) {
		rollup, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup") // it may have ended
		comm, _ := os.ReadFile("/proc/" + pid + "/comm")
		sum += megabytes(rollup, "Pss:")
		list += fmt.Sprintf(" %s %d (%d swapped)", strings.TrimSpace(string(comm)), megabytes(rollup, "Pss:"), megabytes(rollup, "SwapPss:"))
	}
	return sum, list
}

func megabytes(rollup []byte, key string) (n int) {
	_, rest, _ := strings.Cut(string(rollup), "\n"+key)
	_, _ = fmt.Sscan(rest, &n) // 0 without the line
	return n >> 10
}
