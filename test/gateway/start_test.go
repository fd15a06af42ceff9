// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A gateway is as bare in all that it inherits, and a failed start has the shell's statuses.
func TestGatewayStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"plain": "echo \"$0 $1\"\n", "lost": "#!/no/interpreter\n", "--help": "#!/bin/sh\n"} {
		if err := escape.WriteProgram(filepath.Join(dir, name), text); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(dir, "plain")
	w.Command = func(args ...string) *exec.Cmd {
		cmd := w.Viewed(nil, args...)
		cmd.Env[0] += ":" + dir
		return cmd
	}
	wear := func(what ...any) []string {
		return strings.Fields(binaries.wear + " " + strings.TrimSpace(fmt.Sprintln(what...)) + " --")
	}
	const reset = 0x40000000                         // SCHED_RESET_ON_FORK
	filter := regexp.MustCompile("(?m)^Seccomp.*\n") // that is new
	for _, c := range []struct {
		before, command []string
		status          int
		text            string // of stdout or stderr; "": as without mcpscope
	}{
		{nil, []string{"cat", "/proc/self/cmdline"}, 0, ""},
		{nil, []string{"/bin/cat", "/proc/self/environ"}, 0, ""},
		{nil, []string{"grep", "-E", "^(Sig[BI]|Shd)", "/proc/self/status"}, 0, ""},
		{nil, []string{"cat", "/no/file"}, 1, ""},
		{nil, []string{"env"}, 0, ""},
		{nil, []string{"sh", "-c", "echo $0 $1", "a", "b"}, 0, ""},
		{nil, []string{binaries.show, "a"}, 0, ""},
		{wear("death", int(unix.SIGURG)), []string{binaries.show}, 0, ""},
		{wear("scheduler", unix.SCHED_BATCH|reset), []string{binaries.show}, 0, ""},
		{wear("ignored", int(unix.SIGCHLD)), []string{binaries.show}, 0, ""},
		{nil, []string{script, "b"}, 0, script + " b\n"},
		{nil, []string{"--help"}, 0, "Usage: mcpscope gateway "}, // there is a program of that name
		{[]string{binaries.deny, "sendmsg"}, []string{"echo", "a"}, 0, "a\nmcpscope: note: the servers of \"echo\" are NOT contained: "},
		{nil, []string{filepath.Join(dir, "lost")}, 127, "mcpscope: cannot run "},
		{nil, []string{"no-such-program"}, 127, "mcpscope: cannot run "},
		{nil, []string{"/etc/passwd"}, 126, "mcpscope: cannot run "},
	} {
		run := func(of ...string) string {
			o, err := escape.Finish(w.Dir, w.Command(slices.Concat(of, c.command)...))
			if err != nil || o.Status.ExitStatus() != c.status {
				t.Errorf("%q: status %v, want %d (%v)", c.command, o.Status, c.status, err)
			}
			return filter.ReplaceAllString(o.Stdout+o.Stderr, "")
		}
		want := c.text
		if want == "" {
			want = run(c.before...)
		}
		line := append(slices.Clip(c.before), binaries.mcpscope, "gateway")
		if c.command[0] != "--help" {
			line = append(line, "--")
		}
		if got := run(line...); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", c.command, got, want)
		}
	}
}

// Its servers are captured, also by the watcher that comes when the first one was killed.
func TestGatewayStartServers(t *testing.T) {
	for name, line := range map[string][]string{
		"plain":           {binaries.mcpscope, "gateway", "--"},
		"derived name":    {binaries.mcpscope, "gateway", "--", "env"},
		"ignored SIGCHLD": {binaries.wear, "ignored", fmt.Sprint(int(unix.SIGCHLD)), "--", binaries.mcpscope, "gateway", "--"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkStartedServers(t, line)
		})
	}
}

// speakUntilListed has the client speak to a server until the watcher has seen a message: then so many are listed.
func (w *world) speakUntilListed(g *Gateway, name string, servers int) {
	w.T.Helper()
	areListed := func() bool {
		g.Tell("hello %s", name)
		g.Answers(name)
		return strings.Count(w.run("ls", "--json"), `"name": "like"`) == servers
	}
	if !pace.Eventually(escape.Patience, areListed) {
		w.T.Fatalf("%d servers are not listed: %s", servers, w.run("ls"))
	}
}

// wantNote fails unless ls and doctor have a gateway's note.
func (w *world) wantNote(want string) {
	w.T.Helper()
	if notes := w.notes("ls"); !strings.Contains(notes, want) {
		w.T.Errorf("ls notes %q, want %q", notes, want)
	}
	if out := w.doctor(); !strings.Contains(out, want) {
		w.T.Errorf("doctor does not have %q: %s", want, out)
	}
}

func checkStartedServers(t *testing.T, line []string) {
	w := newWorld(t)
	g := w.start(append(line, binaries.like, "gateway", "run"))
	named := binaries.Programs
	named.Zoo = filepath.Join(t.TempDir(), "zoo-mcp")
	if err := os.Symlink(binaries.Zoo, named.Zoo); err != nil {
		t.Fatal(err)
	}
	var all []*Server
	for _, name := range []string{"a", "b"} { // captured at its start, by the first watcher and the next
		s := g.Born("server", name, named.Zoo, "double-fork")
		w.contained(s)
		all = append(all, s)
		w.speakUntilListed(g, name, len(all))
		stopWatcher(w, w.await(w.watchers))
		w.kill(w.watchers)
	}
	g.Own.Signal(unix.SIGKILL)
	for _, s := range all {
		s.Gone(t)
	}
	w.clean()
}

// A watcher's report is not written to the gateway's stderr, which a full-screen agent may own.
func TestNoteOfTheWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program, err := os.ReadFile(binaries.mcpscope)
	alone := filepath.Join(t.TempDir(), "mcpscope") // without the program that reads configurations
	if err = errors.Join(err, escape.WriteProgram(alone, string(program))); err != nil {
		t.Fatal(err)
	}
	g := w.start([]string{alone, "gateway", "--", binaries.like})
	g.Tell("tool")
	g.Expect("tool") // the first program waits until the watcher has read them
	w.wantNote(fmt.Sprintf("like[%d]: cannot read configurations: ", g.PID))
	if text := escape.Contents(g.Stderr); text != "" {
		t.Errorf("stderr: %q", text)
	}
}

// A file of servers that can't be read costs nothing but the names in it: servers are known by their messages, and people are
// told.
func TestGatewayWithoutItsConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start([]string{binaries.mcpscope, "gateway", "--config", "/nonexistent/servers.json", "--", binaries.like})
	s := g.Born("server", "a", binaries.Zoo, "plain")
	w.speakUntilListed(g, "a", 1)
	w.wantNote(fmt.Sprintf("like[%d]: cannot read configurations: ", g.PID))
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}

// A configuration on a file system that hangs costs no more than one that can't be read.
func TestGatewayWhoseConfigurationHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	alone := filepath.Join(dir, "mcpscope")
	program, err := os.ReadFile(binaries.mcpscope)
	err = errors.Join(err, escape.WriteProgram(alone, string(program)))
	reads := filepath.Join(dir, "mcpscopectl") // as the program that reads configurations is called
	if err = errors.Join(err, escape.WriteProgram(reads, "#!/bin/sh\nexec sleep 1000\n")); err != nil {
		t.Fatal(err)
	}
	g := w.start([]string{alone, "gateway", "--match", "zoo", "--", binaries.like})
	g.Tell("tool")
	g.Expect("tool")
	w.serve(g, "a")
	w.wantNote(fmt.Sprintf("like[%d]: cannot read configurations: ", g.PID))
	g.Own.Signal(unix.SIGKILL)
	w.clean()
}

// Killed at any moment of its start it leaves no process.
func TestGatewayStartKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Unique("gateway")
	for range escape.Tries() {
		cmd := w.Command(binaries.mcpscope, "gateway", "--", binaries.like)
		if err := escape.StartIn(group, cmd); err != nil {
			t.Fatal(err)
		}
		after := rand.N(20 * time.Millisecond >> rand.N(6)) // most of a start is in the first of them
		time.Sleep(after)                                   // the kill comes at a random moment, not at an event
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		w.empty(group, "killed after %v", after)
	}
}

// A server is contained also if its gateway ends before the execve of the server is through. A tool that the gateway has left has
// no servers.
func TestServerOfTheLastMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Unique("gateway")
	server := filepath.Join(t.TempDir(), "last-mcp")
	sleep, err := exec.LookPath("sleep")
	if err = errors.Join(err, os.Symlink(sleep, server)); err != nil {
		t.Fatal(err)
	}
	run := func(gateway string) {
		cmd := w.Command(binaries.mcpscope, "gateway", "--", "bash", "-c", gateway, server)
		if err := escape.StartIn(group, cmd); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	for range 5 {
		run(`coproc "$0" 1000; kill -KILL $$`)
		w.empty(group, "the gateway was killed")
	}
	run(`(while kill -0 $$; do :; done; sleep 1000 | "$0" 1000 | sleep 1000) 2>&- & /bin/true; kill -KILL $$`)
	lives := func() bool {
		pids, _ := escape.GroupPids(group) // in no other one
		return slices.ContainsFunc(pids, func(pid int) bool { return strings.Contains(escape.Describe(pid), "Name=last-mcp") })
	}
	if !pace.Eventually(escape.Patience, lives) {
		t.Errorf("what a tool starts is not where it was: %s", escape.Tree(w.Dir))
	}
	if !pace.Eventually(escape.Patience, func() bool { return len(w.watchers()) == 0 }) || !lives() {
		t.Errorf("what a tool starts was stopped: %s", escape.Tree(w.Dir))
	}
}
