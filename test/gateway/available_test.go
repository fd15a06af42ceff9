// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// Without a listener each execve below the gateway would fail with ENOSYS, and with a listener without a watcher it would hang.
func TestExecutes(t *testing.T) {
	for name, harm := range map[string]func(*world, *escape.Process){
		"watchers are killed": func(w *world, _ *escape.Process) { w.kill(w.watchers) },
		"guards are killed": func(w *world, _ *escape.Process) {
			w.kill(w.guards)
			guard := w.await(w.guards)
			if !pace.Eventually(escape.Patience, func() bool {
				return strings.Contains(escape.Describe(w.await(w.watchers).PID), fmt.Sprintf("PPid=%d ", guard.PID))
			}) {
				w.T.Error("the guard has no watcher of its own")
			}
		},
		"watchers are stopped": stopWatcher,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.gateway("--match", "zoo")
			s := g.Server(binaries.Programs, "before", "setsid")
			watcher := w.await(w.watchers)
			runs := 100
			harms := 0
			most := 5
			if escape.Full() && !strings.HasPrefix(name, "guards") { // a new guard starts a watcher, for which programs wait
				runs = 10000
				most = math.MaxInt
			}
			for g.Tell("times %d /bin/true", runs); g.Silent() && harms < most; harms++ {
				harm(w, watcher)
			}
			if failed := g.Expect("times"); failed != "0 <nil>" {
				t.Errorf("%s of %d programs could not be executed", failed, runs)
			}
			t.Logf("%d times", harms)
			if n := len(s.Running()); n == 0 {
				t.Error("the server from before is dead")
			}
			g.Own.Signal(unix.SIGKILL)
			s.Gone(t)
			w.clean()
		})
	}
}

// A watcher that was killed has a successor, which finds what it had received, and with --require nothing is executed
// meanwhile.
func TestWatcherIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo", "--require")
	var all []*Server
	for i := range 4 {
		all = append(all, g.Server(binaries.Programs, fmt.Sprint(i), "double-fork"))
		w.kill(w.watchers)
		w.run("sweep")
		g.Answers("0") // none of them is an orphan
	}
	g.Own.Signal(unix.SIGKILL)
	for _, s := range all {
		s.Gone(t)
	}
	w.clean()
}

// A member may lower the limits of the watcher of its user. The next watcher has those of the guard.
func TestWatcherWithoutDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	one := g.Server(binaries.Programs, "one", "double-fork")
	watcher := w.await(w.watchers)
	if err := unix.Prlimit(watcher.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	g.Tell("close one")
	one.Gone(t)
	two := g.Server(binaries.Programs, "two", "double-fork")
	g.Own.Signal(unix.SIGKILL)
	two.Gone(t)
	w.clean()
}

// A guard that is killed while none can be forked is replaced later: until then programs are executed.
func TestGuardThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	s := g.Server(binaries.Programs, "one", "double-fork")
	watcher := w.await(w.watchers)
	limit := unix.Rlimit{}
	if err := unix.Prlimit(watcher.PID, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 8, Max: limit.Max} // it has these; poll(2) takes no more
	if err := unix.Prlimit(watcher.PID, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	w.kill(w.guards)
	g.Tell("times 100 /bin/true")
	if failed := g.Expect("times"); failed != "0 <nil>" {
		t.Errorf("%s of 100 programs could not be executed", failed)
	}
	if n := len(w.guards()); n > 0 {
		t.Errorf("%d guards were forked without descriptors", n)
	}
	if err := unix.Prlimit(watcher.PID, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	w.await(w.guards)
	two := g.Server(binaries.Programs, "two", "double-fork")
	g.Own.Signal(unix.SIGKILL)
	s.Gone(t)
	two.Gone(t)
	w.clean()
}

// Where no watcher can start any more, the guard kills the servers whose clients have ended. Those of a daemon go on,
// and one whose stdin a tool still holds.
func TestNoWatcherCanStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--match", "zoo")
	d := w.session(g, binaries.like, "gateway", "run", "--daemon")
	daemons := w.serve(d, "daemons")
	held := w.serve(g, "held")
	tool := g.Tool("hold held")
	last := w.serve(g, "last") // the guard looks at it after the others
	guard := w.await(w.guards)
	small := unix.Rlimit{Cur: 256 << 20, Max: math.MaxUint64} // no Go runtime starts with that
	if err := unix.Prlimit(guard.PID, unix.RLIMIT_AS, &small, nil); err != nil {
		t.Fatal(err)
	}
	w.kill(w.watchers)
	g.Own.Signal(unix.SIGKILL)
	last.UntilDead(escape.Patience)
	d.Answers("daemons")
	if len(held.Running()) == 0 {
		t.Error("a server has ended, although a tool may still write to it")
	}
	tool.Signal(unix.SIGKILL)
	held.UntilDead(escape.Patience)
	d.Own.Signal(unix.SIGKILL)
	daemons.UntilDead(escape.Patience)
	if err := unix.Prlimit(guard.PID, unix.RLIMIT_AS, &unix.Rlimit{Cur: math.MaxUint64, Max: math.MaxUint64}, nil); err != nil {
		t.Fatal(err)
	}
	last.Gone(t)
	held.Gone(t)
	daemons.Gone(t)
	w.clean()
}

// A sweep outside of a container spares the servers of a gateway in it, also when its watcher was killed.
func TestSweepOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	line := w.line([]string{binaries.like, "gateway", "run"}, "--match", "zoo")
	g := w.start(append([]string{"unshare", "--pid", "--fork", "--mount-proc"}, line...)) // g.Own is another process
	s := g.Server(binaries.Programs, "a", "double-fork")
	for range 2 {
		w.run("sweep")
		g.Answers("a")
		w.kill(w.watchers)
	}
	guard := w.await(w.guards)
	g.Tell("exit 1")
	s.UntilDead(escape.Patience)
	if !guard.Ended(escape.Patience) { // while it lives the group has a guard
		t.Error("the guard outlives its namespace")
	}
	// The kernel has ended all in the namespace, the guard too. A watcher that still exits has the lock of the group.
	gone := func() bool { return escape.AwaitRemoval(s.Group, 0) == nil }
	escape.SweepUntil(gone, func() { w.run("sweep") })
	s.Gone(t)
}

// stopWatcher fails the test unless the watcher is continued.
func stopWatcher(w *world, watcher *escape.Process) {
	w.T.Helper()
	watcher.Signal(unix.SIGSTOP)
	if !pace.Eventually(escape.Patience, func() bool { return !strings.Contains(escape.Describe(watcher.PID), "State=T") }) {
		w.T.Error("the watcher is stopped")
	}
}
