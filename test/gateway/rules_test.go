// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A gateway whose servers are wrapped one by one has each of them in one group, not in two.
func TestRunInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	s := &Server{Members: escape.NewMembers(t), Name: "wrapped"}
	g.Tell("server wrapped %s run --backend cgroup --name wrapped -- %s --register %s setsid", binaries.mcpscope, binaries.Zoo, s.Address)
	g.Expect("server wrapped")
	if err := s.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	s.Main, _ = s.Members.Main()
	w.contained(s)
	if all := escape.Servers(w.slice(), "*", "*"); len(all) != 1 {
		t.Errorf("groups: %q, want one", all)
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
}

// A filter can have one listener. The inner gateway runs, and says that it contains nothing; the
// outer one sees it as any child.
func TestGatewayInside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := []string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--", binaries.like}
	g := w.start(append([]string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--match", "zoo", "--"}, inner...))
	if text := escape.Contents(g.Stderr); !strings.Contains(text, "mcpscope: note: servers are contained as soon as they are seen, by when they may have started something: another program watches") {
		t.Errorf("it says %q", text)
	}
	s := g.Server(binaries.Programs, "a", "setsid")
	w.contained(s) // by the outer one, whose gateway this is as well
	g.Tell("exit 0")
	w.dead(s)
	w.clean()
}

// What nobody may look at is judged once it runs, and put back if it is no server.
func TestUnseen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start([]string{binaries.deny, "process_vm_readv", "pidfd_getfd", binaries.mcpscope, "gateway", "--backend", "cgroup",
		"--eof-grace", "200ms", "--term-grace", "200ms", "--explain", w.explain, "--", binaries.like})
	shell := g.Tool("shell x")
	for _, dir := range escape.Servers(w.slice(), "*", "*") {
		if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
			t.Error(err)
		}
	}
	lives(t, "what a shell has left", shell)
	if path, err := bed.ProcessPath(shell.PID); err != nil || path != mustPath(t, g.PID) {
		t.Errorf("what a shell has left is in %s, the gateway in %s (%v)", path, mustPath(t, g.PID), err)
	}
	s := g.Server(binaries.Programs, "a", "ignore-eof")
	w.contained(s)
	g.Tell("close a") // seen on a copy of the pipe's end
	w.dead(s)
	w.clean()
	lives(t, "the gateway", g.Own)
}

func mustPath(t *testing.T, pid int) string {
	t.Helper()
	path, err := bed.ProcessPath(pid)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Servers are listed like any others, with the gateway as their client.
func TestListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	s := g.Server(binaries.Programs, "a", "setsid")
	out := w.run("ls", "--format", "{{.ID}} {{.Name}} {{.State}} {{.Client.PID}} {{.Client.Name}} {{.Processes}}")
	if want := idOf(w, s) + " zoo running " + itoa(g.PID) + " like 2\n"; !strings.Contains(out, want) { // trees are others', too
		t.Errorf("ls says %q, want %q", out, want)
	}
	w.run("stop", "--client", itoa(g.PID))
	w.dead(s)
	w.clean()
	lives(t, "the gateway", g.Own)
}

// A command that is in none of the directories but the last is judged there, once.
func TestSearchPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo") // by its first message it could be missed on a busy machine
	s := &Server{Members: escape.NewMembers(t), Name: "searched"}
	dir := filepath.Dir(binaries.Zoo)
	g.Tell("server searched /usr/bin/env --ignore-environment PATH=/nonexistent:/bin:%s zoo --register %s setsid", dir, s.Address)
	g.Expect("server searched")
	if err := s.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	s.Main, _ = s.Members.Main()
	w.contained(s)
	g.Tell("times 20 /usr/bin/env PATH=/nonexistent:/bin /nonexistent/none")
	if rest := g.Expect("times"); !strings.Contains(rest, " 20 ") || !strings.Contains(rest, "exit status 127") {
		t.Errorf("commands that are not there: %q", rest)
	}
	if all := escape.Servers(w.slice(), "*", "*"); len(all) != 1 {
		t.Errorf("groups: %q, want one", all)
	}
	text, err := os.ReadFile(w.explain)
	if n := strings.Count(string(text), " taken as "); n != 1 || err != nil {
		t.Errorf("%d were taken (%v)", n, err)
	}
}

// A gateway for which the kernel allows no filter has its servers contained once they are seen,
// with what they have started by then, unless that was refused.
func TestNoFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start([]string{binaries.deny, "seccomp", binaries.mcpscope, "gateway", "--match", "zoo", "--backend", "cgroup", "--explain", w.explain, "--", binaries.like})
	if text := escape.Contents(g.Stderr); !strings.Contains(text, "mcpscope: note: servers are contained as soon as they are seen") {
		t.Errorf("it says %q", text)
	}
	s := g.Server(binaries.Programs, "a", "setsid")
	if err := escape.AwaitFile(w.explain, escape.Patience); err != nil {
		t.Fatal(err)
	}
	w.contained(s)
	shell := g.Tool("shell x")
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
	lives(t, "what a shell has left", shell)
	o, err := escape.Finish(w.Dir, w.Command(binaries.deny, "seccomp", binaries.mcpscope, "gateway", "--require", "--", "/bin/true"))
	if err != nil || o.Status.ExitStatus() != 125 || !strings.Contains(o.Stderr, "mcpscope: cannot contain the servers of \"/bin/true\": install") {
		t.Errorf("with --require: status %d, %q (%v)", o.Status.ExitStatus(), o.Stderr, err)
	}
}

// The exit status and the signal are the gateway's own.
func TestExit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		line []string
		want int
	}{
		{[]string{"/bin/sh", "-c", "exit 75"}, 75 << 8}, {[]string{"/bin/sh", "-c", "kill -9 $$"}, 9},
		{[]string{"/nonexistent"}, 127 << 8}, {[]string{"/etc/passwd"}, 126 << 8}, {nil, 125 << 8}, {[]string{"--what", "x"}, 125 << 8},
	} {
		o, err := escape.Finish(w.Dir, w.Command(append([]string{binaries.mcpscope, "gateway"}, c.line...)...))
		if err != nil || int(o.Status) != c.want {
			t.Errorf("%q: status %#x, want %#x; %s (%v)", c.line, o.Status, c.want, o.Stderr, err)
		}
	}
}
