// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// The started process becomes the gateway, and its servers are in groups of their own from their first
// instruction on. A SIGKILL of it ends them, but not a tool's left-over: that goes on executing programs, and
// watcher and guard exit after it.
func TestServersEndWithTheGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	if g.Parent != os.Getpid() {
		t.Errorf("its parent is %d, want %d", g.Parent, os.Getpid())
	}
	if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", g.PID)); !strings.HasPrefix(string(text), binaries.like+"\x00gateway\x00run") {
		t.Errorf("its command line is %q", text)
	}
	one := g.Server(binaries.Programs, "one", "double-fork")
	two := g.Server(binaries.Programs, "two", "setsid")
	for _, s := range []*Server{one, two} {
		for _, pid := range s.PIDs() {
			if filepath.Base(mustPath(t, pid)) != filepath.Base(s.Group) {
				t.Errorf("%s is not in %s", escape.Describe(pid), s.Group)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	worker := g.Tool("worker " + file)
	shell := g.Tool("shell x")
	for _, p := range []*escape.Process{worker, shell, g.Own} {
		if path := mustPath(t, p.PID); strings.Contains(path, "mcp.slice") {
			t.Errorf("%s is in %s", escape.Describe(p.PID), path)
		}
	}
	watcher := w.await(w.watchers)
	guard := w.await(w.guards)
	g.Own.Signal(unix.SIGKILL)
	one.Gone(t)
	two.Gone(t)
	w.clean()
	before, _ := os.ReadFile(file) // none yet
	if err := escape.AwaitText(file, escape.Patience, func(now string) bool { return len(now) > len(before)+1 }); err != nil {
		t.Errorf("what a tool has left executes nothing any more: %v", err)
	}
	Lives(t, "what a tool has left", worker)
	Lives(t, "what a shell has left", shell)
	worker.Signal(unix.SIGKILL)
	shell.Signal(unix.SIGKILL)
	escape.WantEnded(t, watcher, guard)
}

// The servers end with their gateway also if its watchers were killed or its guard was stopped.
func TestEndIsSeen(t *testing.T) {
	for name, hide := range map[string]func(*world){
		"a server has stopped the guard": func(w *world) { w.await(w.guards).Signal(unix.SIGSTOP) },
		"the watcher was killed":         func(w *world) { w.kill(w.watchers) },
		"two watchers were killed": func(w *world) {
			w.kill(w.watchers)
			w.kill(w.watchers)
		},
		"the guard was killed": func(w *world) { w.kill(w.guards) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--match", "zoo", "--term-grace", "200ms")
			s := g.Server(binaries.Programs, "a", "ignore-both")
			hide(w)
			g.Own.Signal(unix.SIGKILL)
			s.Gone(t)
			w.clean()
		})
	}
}

// A watcher that cannot read the configurations any more looks after the servers of the one before.
func TestWatcherWithoutItsConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"mcpServers":{}}`)
	g := w.gateway("--match", "zoo", "--config", file, "--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "ignore-both")
	write("{")
	w.kill(w.watchers)
	w.await(w.watchers)
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}

// A tool that holds the server's stdin, and outlives the gateway, is the client then.
func TestToolThatHoldsTheEndsOfAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--term-grace", "200ms")
	s := g.Server(binaries.Programs, "a", "ignore-both")
	tool := g.Tool("hold a")
	g.Own.Signal(unix.SIGKILL)
	time.Sleep(2 * time.Second) // longer than both graces
	if len(s.Running()) == 0 {
		t.Error("the server has ended, although a tool may still write to it")
	}
	Lives(t, "the tool", tool)
	tool.Signal(unix.SIGKILL)
	s.Gone(t)
	w.clean()
}

// A server whose gateway has ended and was reaped before the watcher has judged it gets a group all the same,
// beside the one of the gateway. Its client is the gateway still.
func TestGatewayIsReapedBeforeTheJudgement(t *testing.T) {
	for _, backend := range []string{"auto", "cgroup"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// its client's end stops it, but does not kill it before it is listed
			g := w.gateway("--match", "zoo", "--backend", backend, "--term-grace", "1h")
			w.await(w.watchers)
			fifo := w.fifo()
			s := &Server{Members: escape.NewMembers(t), Name: "one"}
			t.Cleanup(s.Kill)
			// A program of the shell inherits no other end of its own stdin. SIGTERM may come before it runs.
			start := w.script("start", `trap '' TERM; read line <"$1"; shift; exec "$@"`)
			g.Tell("quiet one %s %s %s --register %s ignore-both", start, fifo, binaries.Zoo, s.Address)
			var pid int
			if _, err := fmt.Sscan(g.Expect("server one"), &pid); err != nil {
				t.Fatal(err)
			}
			thaw := freezeGuards(t, w)
			if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
				t.Fatal(err)
			}
			if !pace.Eventually(escape.Patience, func() bool { return waitsInExecve(pid) }) {
				t.Fatal("it executes nothing")
			}
			g.Own.Signal(unix.SIGKILL)
			if _, err := unix.Wait4(g.PID, nil, 0, nil); err != nil {
				t.Fatal(err)
			}
			thaw()
			taken := w.awaitTaken()
			if !strings.Contains(taken, "(cgroup)") {
				t.Errorf("it is no cgroup: %s", taken)
			}
			if err := s.UntilReady(escape.Patience); err != nil {
				t.Fatal(err)
			}
			wanted := fmt.Sprintf(`"client":{"pid":%d,`, g.PID)
			if out := w.run("ls", "--json"); !strings.Contains(strings.Join(strings.Fields(out), ""), wanted) {
				t.Errorf("its client is not %d: %s", g.PID, out)
			}
			s.Main, _ = s.Members.Main()
			s.Main.Signal(unix.SIGKILL)
			s.Gone(t)
			w.clean()
		})
	}
}

// A program that waits in its execve has copies of all descriptors of its gateway, as below a client in Go, Rust or
// Node: the execve closes them. They are no other client.
func TestGatewayEndsBeforeTheExecveOfAServer(t *testing.T) {
	for _, kind := range []string{"pipes", "sockets"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--match", "zoo")
			g.Uses(kind)
			w.await(w.watchers)
			thaw := freezeGuards(t, w)
			s := &Server{Members: escape.NewMembers(t), Name: "one"}
			t.Cleanup(s.Kill)
			g.Tell("quiet one %s --register %s ignore-both", binaries.Zoo, s.Address)
			isHeld := func() bool {
				children, _ := proc.Children(g.PID) // none yet
				return slices.ContainsFunc(children, waitsInExecve)
			}
			if !pace.Eventually(escape.Patience, isHeld) {
				t.Fatal("it executes nothing")
			}
			g.Own.Signal(unix.SIGKILL)
			if !g.Own.Ended(escape.Patience) {
				t.Fatal("it outlived SIGKILL")
			}
			thaw()
			w.awaitTaken()
			s.Gone(t)
			w.clean()
		})
	}
}

// freezeGuards freezes watchers and guards, so that programs wait in their execve.
func freezeGuards(t *testing.T, w *world) (thaw func()) {
	t.Helper()
	dir := filepath.Join(w.slice(), "guards")
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	thaw = func() { write("0") }
	t.Cleanup(thaw)
	const frozen = "frozen 1"
	isFrozen := func(text string) bool { return strings.Contains(text, frozen) }
	if err := escape.AwaitText(filepath.Join(dir, "cgroup.events"), escape.Patience, isFrozen); err != nil {
		t.Fatal(err)
	}
	return thaw
}

// waitsInExecve reports whether a process is in the call.
func waitsInExecve(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid)) // "running", or nothing if it has ended
	return strings.HasPrefix(string(text), fmt.Sprintf("%d ", unix.SYS_EXECVE))
}

// awaitTaken returns the explanation of the first server that was taken.
func (w *world) awaitTaken() (line string) {
	w.T.Helper()
	err := escape.AwaitText(w.explain, escape.Patience, func(text string) bool {
		_, after, isTaken := strings.Cut(text, takenAs)
		line, _, _ = strings.Cut(after, "\n")
		return isTaken
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return line
}

// Where a unit is delegated the groups are below it, and so are watcher and guards.
func TestDelegated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Delegates = true
	cmd := w.Command(binaries.mcpscope, "gateway", "--backend", "delegated", "--explain", w.explain, "--match", "zoo", "--", binaries.like)
	group := w.Unique("unit")
	g := Start(t, cmd, func() error { return escape.StartIn(group, cmd) })
	g.Explain = w.explain
	g.Groups = group
	s := g.Server(binaries.Programs, "a", "double-fork")
	if s.Group == "" {
		t.Error("the server has no group below the unit")
	}
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
}

// again returns a function that starts a server in the same way each time.
func (g *Gateway) again(dir string) func(name string) *Server {
	g.t.Helper()
	script := filepath.Join(dir, "zoo-again")
	text := fmt.Sprintf("#!/bin/sh\nexec %s --register \"$(cat \"$0.address\")\" ignore-eof\n", binaries.Zoo)
	if err := escape.WriteProgram(script, text); err != nil {
		g.t.Fatal(err)
	}
	return func(name string) *Server {
		g.t.Helper()
		s := &Server{Members: escape.NewMembers(g.t), Name: name}
		g.t.Cleanup(s.Kill) // if it has not ended as it should
		if err := os.WriteFile(script+".address", []byte(s.Address), 0o600); err != nil {
			g.t.Fatal(err)
		}
		g.Tell("server %s %s", name, script)
		g.Expect("server " + name)
		if err := s.UntilReady(escape.Patience); err != nil {
			g.t.Fatalf("%s: %v", name, err)
		}
		s.Main, _ = s.Members.Main()
		g.capture(s)
		return s
	}
}

// A gateway that reconnects for days, without closing what it had, has two servers at most, and does not use its
// watcher up.
func TestManyServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo*", "--replace", "--eof-grace", "0", "--term-grace", "0")
	again := g.again(t.TempDir())
	open := func() (n int) {
		for _, p := range slices.Concat(w.watchers(), w.guards()) {
			files, err := escape.OpenFiles(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			n += len(files)
		}
		return n
	}
	count := 25
	last := (*Server)(nil)
	if escape.Full() {
		count = 300
	}
	before := 0
	for i := range count {
		s := again(fmt.Sprint(i))
		if last != nil {
			last.Gone(t)
		}
		if i == 2 {
			before = open()
		}
		last = s
	}
	if !pace.Eventually(escape.Patience, func() bool { return open() <= before+4 }) { // they close them by and by
		t.Errorf("its watchers have %d descriptors, and had %d", open(), before)
	}
	g.Answers(last.Name)
	g.Tell("exit 0")
	last.Gone(t)
	w.clean()
}

// A gateway that may copy no descriptor (yama, docker's filter) holds none either. The end of a server's stdin is seen
// all the same, and a write to a server that has ended fails as it does without mcpscope.
func TestBlindGateway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start([]string{
		binaries.deny, "process_vm_readv", "pidfd_getfd", binaries.mcpscope, "gateway", "--backend", "cgroup", "--match", "zoo",
		"--eof-grace", "200ms", "--term-grace", "200ms", "--", binaries.like,
	})
	one := g.Server(binaries.Programs, "one", "ignore-both")
	two := g.Server(binaries.Programs, "two", "plain")
	g.Tell("close one")
	one.Gone(t)
	g.Answers("two")
	two.Main.Signal(unix.SIGKILL)
	two.Gone(t)
	g.Tell("ask two")
	if answer := g.Expect("answer two"); !strings.Contains(answer, "broken pipe") {
		t.Errorf("a server that has ended: %q", answer)
	}
	three := g.Server(binaries.Programs, "three", "ignore-both")
	g.Tell("exit 0")
	three.Gone(t)
	w.clean()
}

// Root in a container, without CAP_SYS_PTRACE, sees nothing of what becomes another user. It says so.
func TestOtherUserBelowABlindRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := []string{
		"setpriv", "--bounding-set", "-sys_ptrace", binaries.mcpscope, "gateway", "--backend", "cgroup", "--explain", w.explain, "--",
		"setpriv", "--reuid", "4002", "--regid", "4002", "--clear-groups", "sh", "-c", "true | cat",
	}
	cmd := w.Command(line...)
	if o, err := escape.Finish(w.Dir, cmd); err != nil || o.Status != 0 {
		t.Fatalf("%v, status %v: %s", err, o.Status, o.Stderr)
	}
	text, err := os.ReadFile(w.explain)
	if !strings.Contains(string(text), "CAP_SYS_PTRACE") {
		t.Errorf("explained: %s (%v)", text, err)
	}
	w.clean()
}

// A gateway that mcpscope run has started contains nothing by itself: the server around it has all of it, and ends with
// all of it at once. It says so, and --check does.
func TestGatewayInAServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := []string{binaries.mcpscope, "run", "--backend", "cgroup", "--name", "outer", "--", binaries.mcpscope, "gateway"}
	o, err := escape.Finish(w.Dir, w.Command(append(in, "--match", "cat *", "--", "sh", "-c", "true | cat /proc/self/cgroup | cat")...))
	if err != nil || o.Status.ExitStatus() != 0 || !strings.Contains(o.Stdout, "/mcp-outer-") || strings.Contains(o.Stdout, "/mcp-cat-") {
		t.Errorf("%v: %+v", err, o)
	}
	escape.Contains(t, o.Stderr, "mcpscope: note: the servers of \"sh\" are in the group of the mcpscope run around it", "hint: put the gateway outside")
	o, err = escape.Finish(w.Dir, w.Command(append(in, "--check", "--", "sh")...))
	if err != nil || !strings.Contains(o.Stdout, "servers are in the group of the mcpscope run around this one") {
		t.Errorf("%v: %+v", err, o)
	}
	w.clean()
}

// A gateway for which the kernel allows no filter runs, with a note and without groups, unless that was refused.
func TestNoFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.start([]string{binaries.deny, "seccomp", binaries.mcpscope, "gateway", "--backend", "cgroup", "--match", "zoo", "--", binaries.like})
	s := g.Server(binaries.Programs, "a", "setsid")
	if note := escape.Contents(g.Stderr); !strings.HasPrefix(note, "mcpscope: note: the servers of \"") {
		t.Errorf("stderr: %q", note)
	}
	if path := mustPath(t, s.Main.PID); path != mustPath(t, g.PID) {
		t.Errorf("the server is in %s", path)
	}
	o, err := escape.Finish(w.Dir, w.Command(binaries.deny, "seccomp", binaries.mcpscope, "gateway", "--require", "--", "/bin/true"))
	if err != nil || o.Status.ExitStatus() != 125 || !strings.HasPrefix(o.Stderr, "mcpscope: cannot contain the servers of ") {
		t.Errorf("with --require: status %d, %q (%v)", o.Status.ExitStatus(), o.Stderr, err)
	}
}

// A gateway that no watcher can ever watch does not start with --require, and leaves nothing behind.
func TestRequireWithoutWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := []string{binaries.deny, "epoll_create1", binaries.mcpscope, "gateway", "--backend", "cgroup", "--require", "--", "/bin/true"}
	o, err := escape.Finish(w.Dir, w.Command(line...))
	if err != nil || o.Status.ExitStatus() != 125 {
		t.Errorf("status %d (%v)", o.Status.ExitStatus(), err)
	}
	escape.Contains(t, o.Stderr, "mcpscope: cannot contain the servers of ", "watcher")
	isGuard := func(pid int) bool { return strings.Contains(escape.Describe(pid), "Name=mcpscope-guard ") }
	if !pace.Eventually(escape.Patience, func() bool {
		pids, err := escape.GroupPids(w.Dir) // it was not moved out
		return err == nil && !slices.ContainsFunc(pids, isGuard)
	}) {
		t.Error("its guard is left")
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
		{[]string{filepath.Join(t.TempDir(), "none")}, 127 << 8}, {[]string{"/etc/passwd"}, 126 << 8}, {nil, 125 << 8}, {[]string{"--what", "x"}, 125 << 8},
	} {
		o, err := escape.Finish(w.Dir, w.Command(append([]string{binaries.mcpscope, "gateway"}, c.line...)...))
		if err != nil || int(o.Status) != c.want {
			t.Errorf("%q: status %#x, want %#x; %s (%v)", c.line, o.Status, c.want, o.Stderr, err)
		}
	}
}
