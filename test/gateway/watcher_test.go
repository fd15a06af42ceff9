// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Without a listener each execve below the gateway would fail with ENOSYS.
func TestWatcherIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	before := g.Server(binaries.Programs, "before", "setsid")
	const rounds, runs = 8, 50
	g.Tell("times %d /bin/true", runs*rounds)
	for range rounds {
		w.killOneWatcher()
	}
	var nanos, failures int
	_, _ = fmt.Sscan(g.Expect("times"), &nanos, &failures)
	if failures > 0 || nanos == 0 {
		t.Errorf("%d of %d programs could not be executed", failures, runs*rounds)
	}
	if n := len(before.Running()); n == 0 {
		t.Error("the server from before is dead")
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", w.watchers()[0].PID))
	if err != nil || string(comm) != "mcpscope-watch\n" {
		t.Errorf("the watcher is called %q (%v)", comm, err)
	}
	after := g.Server(binaries.Programs, "after", "double-fork")
	if w.contained(before) == w.contained(after) {
		t.Error("both servers are in one group")
	}
	g.Own.Signal(unix.SIGKILL)
	w.dead(before)
	w.dead(after)
	w.clean()
}

// Who takes over goes on listening: a server that was started before is captured when it is spoken to.
func TestCandidateOfAKilledWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway()
	s := &Server{Members: escape.NewMembers(t), Name: "a"}
	t.Cleanup(s.Kill)
	g.Tell("quiet a %s --register %s --slow yes double-fork", binaries.Zoo, s.Address)
	g.Expect("server a")
	if err := s.UntilReady(escape.Patience); err != nil {
		t.Fatal(err)
	}
	w.killOneWatcher()
	g.Tell("times 1 /bin/true") // it has taken over when that is answered
	g.Expect("times")
	g.Tell("hello a")
	g.AwaitTaken()
	s.Main, _ = s.Members.Main()
	w.contained(s)
	g.Own.Signal(unix.SIGKILL)
	w.dead(s)
	w.clean()
}

// killOneWatcher kills whoever watches, or stands by, once both are there.
func (w *world) killOneWatcher() {
	w.T.Helper()
	deadline := time.Now().Add(escape.Patience)
	for {
		all := w.watchers()
		if len(all) >= 2 {
			all[0].Signal(unix.SIGKILL)
			if !all[0].Ended(escape.Patience) {
				w.T.Fatal("the watcher outlived SIGKILL")
			}
			return
		}
		if time.Now().After(deadline) {
			w.T.Fatalf("there are %d watchers", len(all))
		}
		escape.PollFor(time.Millisecond) // no event tells of a process in a group
	}
}

// A gateway that reconnects for days must not use its watcher up.
func TestManyServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.gateway("--eof-grace", "0", "--term-grace", "0")
	open := func() (n int) {
		for _, p := range w.watchers() {
			open, err := escape.OpenFiles(p.PID)
			if err != nil {
				t.Fatal(err)
			}
			n += len(open)
		}
		return n
	}
	reconnect := func(times int) {
		for range times {
			s := g.Server(binaries.Programs, "a", "ignore-eof")
			g.Tell("close a")
			w.dead(s)
		}
		w.clean()
	}
	reconnect(2)
	before := open()
	reconnect(25)
	for deadline := time.Now().Add(escape.Patience); open() > before+4; escape.PollFor(time.Millisecond) { // they close them by and by
		if time.Now().After(deadline) {
			t.Fatalf("its watchers have %d descriptors, and had %d", open(), before)
		}
	}
	kept := g.Server(binaries.Programs, "kept", "setsid")
	w.contained(kept)
	g.Tell("exit 0")
	w.dead(kept)
	w.clean()
}
