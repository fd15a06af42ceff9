// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// privateSize is memory in kB that a process shares with nobody.
func privateSize(t *testing.T, pid int) (kilobytes int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "smaps_rollup"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "Private_") && !strings.HasPrefix(line, "Private_Hugetlb") {
			n, _ := strconv.Atoi(strings.Fields(line)[1]) // the kernel writes numbers
			kilobytes += n
		}
	}
	return kilobytes
}

func itoa(n int) string { return strconv.Itoa(n) }

// The gateway is what was started, its servers are in groups of their own from their first
// instruction on, and a SIGKILL of it ends them, and not what a tool has left.
func TestServersEndWithTheGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	if g.Parent != os.Getpid() {
		t.Errorf("its parent is %d, want %d", g.Parent, os.Getpid())
	}
	if text, _ := os.ReadFile(filepath.Join("/proc", itoa(g.PID), "cmdline")); !strings.HasPrefix(string(text), binaries.like+"\x00gateway\x00run") {
		t.Errorf("its command line is %q", text)
	}
	one, two := g.Server(binaries.Programs, "one", "double-fork"), g.Server(binaries.Programs, "two", "setsid")
	if w.contained(one) == w.contained(two) {
		t.Error("both servers are in one group")
	}
	tool, shell := g.Tool("tool"), g.Tool("shell x")
	for _, p := range []*escape.Process{tool, shell, g.Own} {
		if path, err := bed.ProcessPath(p.PID); err != nil || strings.Contains(path, "mcp.slice") {
			t.Errorf("%s is in %s (%v)", escape.Describe(p.PID), path, err)
		}
	}
	watchers := w.watchers()
	if len(watchers) != 2 {
		t.Errorf("%d processes beside the gateway, want 2", len(watchers))
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(one)
	w.dead(two)
	w.clean()
	lives(t, "what a tool has left", tool)
	lives(t, "what a shell has left", shell)
	tool.Signal(unix.SIGKILL)
	shell.Signal(unix.SIGKILL)
	for _, p := range watchers {
		if !p.Ended(escape.Patience) {
			t.Error("who watched the gateway is left when nobody is to be watched")
		}
	}
}

func TestEnds(t *testing.T) {
	ends := map[string]func(w *world, g *Gateway, s *Server){
		"stdin-closed":   func(_ *world, g *Gateway, _ *Server) { g.Tell("close a") },
		"main-exited":    func(_ *world, _ *Gateway, s *Server) { s.Main.Signal(unix.SIGKILL) },
		"stop-requested": func(w *world, _ *Gateway, s *Server) { w.run("stop", idOf(w, s)) },
		"gateway-exits":  func(_ *world, g *Gateway, _ *Server) { g.Tell("exit 7") },
		"supervisor-killed": func(w *world, _ *Gateway, s *Server) {
			p := supervisorOf(w, s)
			p.Signal(unix.SIGKILL)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--eof-grace", "200ms", "--term-grace", "200ms")
			a, b := g.Server(binaries.Programs, "a", "double-fork"), g.Server(binaries.Programs, "b", "setsid")
			tool := g.Tool("tool")
			w.contained(a)
			end(w, g, a)
			w.dead(a)
			if name == "gateway-exits" {
				w.dead(b)
				w.clean()
			} else {
				g.Tell("ask b")
				if answer := g.Expect("answer b"); answer != "ping" {
					t.Errorf("the other server says %q", answer)
				}
			}
			lives(t, "what a tool has left", tool)
		})
	}
}

// When the gateway and its servers are gone one process stays for what a tool has left, which goes on.
func TestWatchersLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	s := g.Server(binaries.Programs, "a", "setsid")
	file := filepath.Join(t.TempDir(), "file")
	worker := g.Tool("worker " + file)
	before := w.watchers()
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
	left := w.watchers()
	// No event tells of it. The one that stays executes itself anew, and has no command line for a moment.
	for deadline := time.Now().Add(escape.Patience); len(left) != 1; left = w.watchers() {
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are left, and were %d; want one", len(left), len(before))
		}
		escape.PollFor(time.Millisecond)
	}
	size := func(text string) func(string) bool { return func(now string) bool { return len(now) > len(text)+1 } }
	text, _ := os.ReadFile(file) // none yet
	if err := escape.AwaitText(file, escape.Patience, size(string(text))); err != nil {
		t.Errorf("what a tool has left executes nothing any more: %v", err)
	}
	t.Logf("it has %d kB of its own", privateSize(t, left[0].PID))
	lives(t, "what a tool has left", worker)
	worker.Signal(unix.SIGKILL)
	if !left[0].Ended(escape.Patience) {
		t.Error("it is left when nobody has the filter any more")
	}
}

// Who is stopped can't notice the gateway's end, and a server can stop its supervisor.
func TestSupervisorStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "ignore-both")
	supervisorOf(w, s).Signal(unix.SIGSTOP)
	begin := time.Now()
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
	if took := time.Since(begin); took > 4*time.Second { // after 5 s the watcher ends it, and its supervisor
		t.Errorf("it was not continued; the end took %v", took)
	}
}

// The gateway is known to be the client: who else has a server's stdin and stdout does not keep it.
func TestPipesHeldByATool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	s := g.Server(binaries.Programs, "a", "setsid")
	tool := g.Tool("hold a")
	begin := time.Now()
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
	w.clean()
	lives(t, "the tool", tool)
}

// Where a unit is delegated the groups are below it, and whoever watches as well.
func TestDelegated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Delegates = true
	cmd := w.Command(binaries.mcpscope, "gateway", "--backend", "delegated", "--explain", w.explain, "--", binaries.like)
	group := w.Unique("unit")
	g := Start(t, cmd, func() error { return escape.StartIn(group, cmd) })
	g.Explain = w.explain
	s := g.Server(binaries.Programs, "a", "double-fork")
	if path, err := bed.ProcessPath(s.Main.PID); err != nil || !strings.HasPrefix(path, mustPath(t, g.PID)+"/mcp-zoo-") {
		t.Errorf("the server is in %s, the gateway in %s (%v)", path, mustPath(t, g.PID), err)
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	for _, dir := range escape.Servers(group, "*", "*") {
		if err := escape.AwaitRemoval(dir, escape.Patience); err != nil {
			t.Error(err)
		}
	}
}

// idOf finds the id of a server by its group.
func idOf(w *world, s *Server) string {
	w.T.Helper()
	dir := filepath.Base(filepath.Dir(w.contained(s)))
	return dir[strings.LastIndexByte(dir, '-')+1:]
}

func supervisorOf(w *world, s *Server) *escape.Process {
	w.T.Helper()
	_, p, err := escape.FindServer(w.slice(), idOf(w, s))
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(p.Close)
	return p
}

// With --contain-gateway what a tool has left ends with the gateway, however that ends, whoever of the two
// beside it is left, and with or without a filter. Whoever else is there does not.
func TestContainGateway(t *testing.T) {
	ends := map[string]func(w *world, g *Gateway){
		"killed":         func(_ *world, g *Gateway) { g.Own.Signal(unix.SIGKILL) },
		"exits":          func(_ *world, g *Gateway) { g.Tell("exit 0") },
		"watcher killed": func(_ *world, g *Gateway) { g.Own.Signal(unix.SIGKILL) },
		"no filter":      func(_ *world, g *Gateway) { g.Own.Signal(unix.SIGKILL) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			line := []string{binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain, "--contain-gateway", "--term-grace", "200ms", "--", binaries.like}
			if name == "no filter" {
				line = append([]string{binaries.deny, "seccomp"}, slices.Insert(line, 2, "--match", "zoo")...)
			}
			g, beside := w.start(line), w.Plain("beside", w.Unique("beside"))
			if name == "watcher killed" {
				w.killOneWatcher() // the standby takes over
			}
			other := w.gateway()
			kept := other.Tool("tool")
			s, tool := g.Server(binaries.Programs, "a", "setsid"), g.Tool("tool")
			if !strings.Contains(name, "filter") {
				w.contained(s)
			}
			end(w, g)
			if !tool.Ended(escape.Patience) {
				t.Error("what a tool has left is left")
			}
			w.dead(s)
			if !beside.Lives() {
				t.Error("the bystander does not answer")
			}
			lives(t, "what another gateway's tool has left", kept)
			lives(t, "the other gateway", other.Own)
			other.Own.Signal(unix.SIGKILL)
			w.clean()
		})
	}
}
