// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A gateway without flags and settings starts before the Go runtime, and is as bare: in a shell that no Go runtime could start in,
// too. All else is left to main, and so is a failure.
func TestEarly(t *testing.T) {
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
	alone := []string{binaries.deny, "rt_sigaction"}
	for _, c := range []struct {
		before, command []string
		status          int
		text            string // of stdout or stderr; "": as without mcpscope
	}{
		{alone, []string{"cat", "/proc/self/cmdline"}, 0, ""},
		{alone, []string{"/bin/cat", "/proc/self/environ"}, 0, ""},
		{alone, []string{"grep", "-E", "^(Sig[BI]|Shd)", "/proc/self/status"}, 0, ""},
		{alone, []string{"cat", "/no/file"}, 1, ""},
		{alone, []string{"env"}, 0, ""},
		{alone, []string{"sh", "-c", "echo $0 $1", "a", "b"}, 0, ""},
		{nil, []string{script, "b"}, 0, script + " b\n"},
		{nil, []string{"--help"}, 0, "Usage: mcpscope gateway "}, // there is a program of that name
		{[]string{binaries.deny, "sendmsg"}, []string{"echo", "a"}, 0, "a\nmcpscope: note: the servers are not contained: "},
		{nil, []string{filepath.Join(dir, "lost")}, 127, "mcpscope: cannot run "},
		{nil, []string{"no-such-program"}, 127, "mcpscope: cannot run "},
		{nil, []string{"/etc/passwd"}, 126, "mcpscope: cannot run "},
	} {
		run := func(of ...string) string {
			o, err := escape.Finish(w.Dir, w.Command(slices.Concat(of, c.command)...))
			if err != nil || o.Status.ExitStatus() != c.status {
				t.Errorf("%q: status %v, want %d (%v)", c.command, o.Status, c.status, err)
			}
			return o.Stdout + o.Stderr
		}
		want := c.text
		if want == "" {
			want = run()
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
func TestEarlyServers(t *testing.T) {
	for name, before := range map[string][]string{"plain": nil, "derived name": {"env"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkEarlyServers(t, before)
		})
	}
}

func checkEarlyServers(t *testing.T, before []string) {
	w := newWorld(t)
	line := append([]string{binaries.mcpscope, "gateway", "--"}, before...)
	g := w.start(append(line, binaries.like, "gateway", "run"))
	named := binaries.Programs
	named.Zoo = filepath.Join(t.TempDir(), "zoo-mcp")
	if err := os.Symlink(binaries.Zoo, named.Zoo); err != nil {
		t.Fatal(err)
	}
	var all []*Server
	for _, name := range []string{"a", "b"} { // captured at its start, by the first watcher and the next
		s := g.Born("server", name, named.Zoo, "double-fork")
		if path := mustPath(t, s.Main.PID); filepath.Base(path) != "payload" {
			t.Errorf("%s is in %s", name, path)
		}
		all = append(all, s)
		w.await(w.watchers)
		if out := w.run("ls", "--json"); strings.Count(out, `"name": "like"`) != len(all) {
			t.Errorf("the watcher does not know the gateway's name: %s", out)
		}
		w.kill(w.watchers)
	}
	g.Own.Signal(unix.SIGKILL)
	for _, s := range all {
		s.Gone(t)
	}
	w.clean()
}

// Killed at any moment of its start it leaves no process.
func TestEarlyKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Unique("gateway")
	for range escape.Tries(t) {
		cmd := w.Command(binaries.mcpscope, "gateway", "--", binaries.like)
		if err := escape.StartIn(group, cmd); err != nil {
			t.Fatal(err)
		}
		after := rand.N(20 * time.Millisecond >> rand.N(6)) // most of a start is in the first of them
		time.Sleep(after)                                   // the kill comes at a random moment, not at an event
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		left := func() []int {
			pids, _ := escape.GroupPids(filepath.Join(w.slice(), "guards")) // there may be none
			more, _ := escape.GroupPids(group)
			return append(pids, more...)
		}
		if !pace.Eventually(escape.Patience, func() bool { return len(left()) == 0 }) {
			t.Fatalf("killed after %v: left: %v: %s", after, left(), escape.Tree(w.Dir))
		}
	}
}
