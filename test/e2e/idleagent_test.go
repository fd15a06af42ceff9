// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// agentIdle is --idle-freeze for a program that does what a key says at once. The times of its terminal are those
// of the kernel, which are written every eight seconds: real agents get minutes.
const agentIdle = "300ms"

// A terminalAgent is a program on a terminal below mcpscope.
type terminalAgent struct {
	world    *world
	term     *transparent.Terminal
	group    string
	guard    *escape.Process
	launcher *escape.Process
}

// startAgent starts it, with the command of a server that it may start.
func startAgent(t *testing.T, server ...string) *terminalAgent {
	t.Helper()
	return startAgentBelow(t, nil, server...)
}

// startAgentBelow starts it below a gateway with these flags, if there are any.
func startAgentBelow(t *testing.T, gateway []string, server ...string) *terminalAgent {
	t.Helper()
	w := newWorld(t)
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { outside.Close() })
	line := append([]string{"run", "--name", "agent", "--idle-freeze", agentIdle, "--", binaries.agent, outside.Addr().String()}, server...)
	if gateway != nil {
		line = slices.Concat([]string{"gateway"}, gateway, []string{"--", binaries.mcpscope}, line)
	}
	cmd := w.mcpscope(line...)
	a := &terminalAgent{world: w}
	a.term = transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(w.Unique("client"), cmd) })
	a.find(cmd.Process.Pid)
	return a
}

// find finds the agent's processes, when it takes keys.
func (a *terminalAgent) find(launcher int) {
	a.world.T.Helper()
	a.term.Expect("ready")
	dir := rootsSlice(a.world.Site)
	if sessions, _ := filepath.Glob(dir + "/mcp-session_*"); len(sessions) > 0 { // the pattern is valid
		dir = sessions[0]
	}
	a.group = escape.Servers(dir, "agent", "*")[0]
	var err error
	_, a.guard, err = escape.FindServer(dir, a.group[strings.LastIndex(a.group, "-")+1:])
	if err != nil {
		a.world.T.Fatal(err)
	}
	a.world.T.Cleanup(a.guard.Close)
	if a.launcher, err = escape.OpenProcess(launcher); err != nil {
		a.world.T.Fatal(err)
	}
	a.world.T.Cleanup(a.launcher.Close)
}

func (a *terminalAgent) idle(wakes int) {
	a.world.T.Helper()
	if err := escape.AwaitIdle(a.group, wakes, escape.Patience); err != nil {
		notes, _ := os.ReadFile(a.group + "/cgroup.events")
		a.world.T.Fatalf("%v: %s", err, notes)
	}
}

// awake waits until a reason has kept the agent from being frozen three times.
func (a *terminalAgent) awake(reason string) {
	a.world.T.Helper()
	if err := escape.AwaitNote(a.group, "not idle: "+reason, escape.Patience); err != nil {
		a.world.T.Fatalf("%q: %v", reason, err)
	}
	events, err := os.ReadFile(a.group + "/cgroup.events")
	if err != nil || strings.Contains(string(events), "frozen 1") {
		a.world.T.Errorf("frozen, though %s: %v", reason, err)
	}
}

// does has a key do something, which the agent draws.
func (a *terminalAgent) does(key, drawn string) {
	a.world.T.Helper()
	a.term.Type(key)
	a.term.Expect(drawn)
}

// ended waits until nothing of it is left.
func (a *terminalAgent) ended() {
	a.world.T.Helper()
	escape.WantEnded(a.world.T, a.launcher, a.guard)
	a.world.clean()
}

// An agent that nothing is drawn by and typed at is frozen. Each key and each change of the window wakes it.
func TestIdleAgentWakes(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.idle(0)
	a.does("x", "key x")
	a.idle(1)
	a.term.Resize(30, 100)
	a.term.Expect("size 30 100")
	a.idle(2)
	a.does("\x03", "interrupted")
	a.idle(3)
	a.launcher.Signal(unix.SIGUSR1) // which means nothing to it
	a.idle(4)
	a.term.Type("q")
	a.ended()
}

// A program on a terminal has more time to save its work when that closes, unless a flag says how much.
func TestGraceOnATerminal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"plain":  {nil, "term-grace=10s"},
		"other":  {[]string{"--idle-freeze", "1h"}, "term-grace=10s"},
		"chosen": {[]string{"--term-grace", "1s", "--idle-freeze", "1h"}, "term-grace=1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			line := append([]string{"run", "--name", "agent"}, c.flags...)
			cmd := w.mcpscope(append(line, "--", "sh", "-c", "echo ready; exec cat")...)
			a := &terminalAgent{world: w}
			a.term = transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(w.Unique("client"), cmd) })
			a.find(cmd.Process.Pid)
			if o := w.run(w.mcpscope("inspect", "agent")); !strings.Contains(o.Stdout, c.want) {
				t.Errorf("want %q: %s", c.want, o.Stdout)
			}
			a.term.Type("\x03")
			a.ended()
		})
	}
}

// A shell stops it and continues it. It is not frozen meanwhile.
func TestIdleAgentIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.Command(binaries.transparent.Shell, "outer")
	a := &terminalAgent{world: w}
	a.term = transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(w.Unique("client"), cmd) })
	a.term.Expect("outer ready")
	a.term.Type(strings.Join([]string{"run", binaries.mcpscope, "run --name agent --idle-freeze", agentIdle, "--", binaries.agent, "none\n"}, " "))
	a.find(cmd.Process.Pid)
	for wakes := range 2 {
		a.idle(2 * wakes)
		a.term.Type("\x1a")
		a.term.Expect("leaves", "outer stopped ")
		a.awake("a process of it is stopped")
		a.term.Type("fg\n")
		a.term.Expect("returns")
		a.does("x", "key x")
		a.idle(2*wakes + 1)
		a.does("y", "key y")
	}
	a.does("q", "outer exited 7")
	a.launcher = a.guard
	a.ended()
}

// Each end of an agent ends an idle one, too.
func TestIdleAgentEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*terminalAgent){
		"terminal closed": func(a *terminalAgent) { a.term.HangUp() },
		"SIGTERM":         func(a *terminalAgent) { a.launcher.Signal(unix.SIGTERM) },
		"SIGHUP":          func(a *terminalAgent) { a.launcher.Signal(unix.SIGHUP) },
		"launcher killed": func(a *terminalAgent) { a.launcher.Signal(unix.SIGKILL) },
		"guard killed": func(a *terminalAgent) {
			a.guard.Signal(unix.SIGKILL)
			a.guard.Ended(escape.Patience)
			a.does("x", "key x")
			a.idle(0)
			a.term.Type("q")
		},
		"both killed": func(a *terminalAgent) {
			if err := escape.KillTogether(a.guard, a.launcher); err != nil {
				a.world.T.Fatal(err)
			}
			a.world.wantSuccess("sweep", "--quiet")
		},
		"stop": func(a *terminalAgent) { a.world.wantSuccess("stop", "agent") },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			a := startAgent(t)
			a.idle(0)
			end(a)
			a.ended()
		})
	}
}

// An agent that something else than its terminal may wake is not frozen: each of these ends first.
func TestAgentIsNotIdle(t *testing.T) {
	t.Parallel()
	const unknown = "which is not known as a server"
	for name, c := range map[string]struct{ begin, begun, end, ended, why string }{
		"a connection":       {"o", "opened", "u", "closed", "it has a TCP socket"},
		"a listener":         {"l", "opened", "u", "closed", "it has a TCP socket"},
		"a task":             {"t", "started", "e", "ended", "it runs sleep, " + unknown},
		"a daemon":           {"d", "started", "e", "ended", "it runs agent, " + unknown},
		"an unknown program": {"s", "started", "e", "ended", "it runs cat, " + unknown},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, "cat")
			a.idle(0)
			a.does(c.begin, c.begun)
			a.awake(c.why)
			a.does(c.end, c.ended)
			a.idle(1)
			a.does("x", "key x")
			a.term.Type("q")
			a.ended()
		})
	}
}

// A program that waits for a line gets no key at once. It is not frozen, whatever it is.
func TestLinesAreNotIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.mcpscope("run", "--name", "agent", "--idle-freeze", agentIdle, "--", "sh", "-c", "echo ready; exec cat")
	a := &terminalAgent{world: w}
	a.term = transparent.StartTerminal(t, cmd, func() error { return escape.StartIn(w.Unique("client"), cmd) })
	a.find(cmd.Process.Pid)
	a.awake("its terminal is not in raw mode")
	a.term.Type("\x03")
	a.ended()
}

// namedServer is a program that has the name of a server.
func namedServer(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "echo-mcp")
	if err := os.Symlink("/bin/cat", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// An agent is frozen with its servers, with a lock that it holds for long, and with an interface to itself. A server
// that is wrapped has a group of its own, and any name.
func TestIdleAgentWithServers(t *testing.T) {
	t.Parallel()
	for name, server := range map[string][]string{
		"named":   {namedServer(t)},
		"wrapped": {binaries.mcpscope, "run", "--name", "wrapped", "--", "cat"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAgent(t, server...)
			a.does("s", "started")
			a.does("m", "answer message")
			a.does("i", "opened")
			a.does("f", "opened")
			a.idle(0)
			for wakes := range 3 {
				a.idle(wakes)
				a.does("m", "answer message")
			}
			a.idle(3)
			a.term.HangUp()
			a.ended()
		})
	}
}

// A gateway in front bounds the sum, and leaves what mcpscope run contains to that.
func TestIdleAgentInASession(t *testing.T) {
	t.Parallel()
	a := startAgentBelow(t, []string{"--session", "--idle-freeze", agentIdle}, namedServer(t))
	a.does("s", "started")
	a.does("m", "answer message")
	for wakes := range 3 {
		a.idle(wakes)
		a.does("m", "answer message")
	}
	a.idle(3)
	a.term.HangUp()
	a.ended()
}
