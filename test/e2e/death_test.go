// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A dead client has no use for answers: no EOF grace, no wait for unread input.
func TestDeadClientEndsTheServerWithTheTermGraceOnly(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", long}, "--members", "2")
	s.Tell("write deaf 60000")
	s.Tell("write never read")
	s.Expect("wrote never read")
	start := time.Now()
	s.Own.Signal(unix.SIGKILL)
	within(t, "SIGTERM", s.told(3, escape.Patience).Sub(start), 0, 0)
	s.dead(escape.Patience)
	within(t, "the end", time.Since(start), termGrace, termGrace)
	s.wantAsked(3, unix.SIGTERM)
}

// startSpawned starts a probe by a spawner that has neither end of its stdin and
// stdout: the test has.
func startSpawned(t *testing.T, flags ...string) (*server, *os.File) {
	t.Helper()
	theirIn, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ourIn.Close()
		ourOut.Close()
	})
	w := newWorld(t)
	s := &server{world: w, members: escape.NewMembers(t)}
	line := append([]string{binaries.mcpscope, "run"}, flags...)
	line = append(line, "--", binaries.probe, "--register", s.members.Address)
	s.Client = w.NewClient(w.Unique("spawner"), []string{"--group", "--stdin", "3", "--stdout", "4"}, line, theirIn, theirOut)
	theirIn.Close()
	theirOut.Close()
	if err := s.members.UntilReady(escape.Patience); err != nil {
		t.Fatalf("%v; stderr: %s", err, escape.Contents(s.Stderr))
	}
	s.group, s.supervisor = w.find(s.members)
	return s, ourIn
}

// Somebody else holds stdin, so the dead parent may have been only a spawner: a
// server that works is left alone, one that is idle for 10 s is ended.
func TestDeadSpawnerEndsAnIdleServer(t *testing.T) {
	t.Parallel()
	s, stdin := startSpawned(t)
	fmt.Fprintln(stdin, "burn 8000")
	s.Own.Signal(unix.SIGKILL)
	told := s.told(1, 3*escape.Patience)
	worked, ok := s.members.When("idle")
	if !ok {
		t.Fatal("it was ended while it worked")
	}
	// the last of its work is in one window, and too little in the next; that one may begin at any time of the first
	within(t, "SIGTERM", told.Sub(worked), 9*time.Second, 20*time.Second)
	s.dead(escape.Patience)
}

func TestClientDeathCanBeIgnored(t *testing.T) {
	t.Parallel()
	s, stdin := startSpawned(t, "--on-client-death", "ignore", "--eof-grace", "300ms")
	fmt.Fprintln(stdin, "stay")
	s.Own.Signal(unix.SIGKILL)
	if s.members.UntilDead(12*time.Second) == 0 || len(s.signals()) > 0 {
		t.Errorf("the server got %v", s.signals())
	}
	stdin.Close()
	s.told(1, escape.Patience)
	s.dead(escape.Patience)
	s.wantAsked(1, unix.SIGTERM)
}

func TestKilledLauncherLeavesTheWholeLadder(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	start := time.Now()
	s.Server.Signal(unix.SIGKILL)
	within(t, "SIGTERM", s.told(3, escape.Patience).Sub(start), 0, 0)
	s.dead(escape.Patience)
	within(t, "the end", time.Since(start), termGrace, termGrace)
	s.wantAsked(3, unix.SIGTERM)
}

// Who stands by leaves the server to a supervisor that has come up meanwhile. One that is stopped right then was told of the
// launcher's death before it could be woken by that.
func TestSupervisorStoppedAsItTakesOver(t *testing.T) {
	t.Parallel()
	s := startServer(newWorld(t), []string{"--group"}, []string{"--backend", "cgroup", "--term-grace", "100ms"}, binaries.Zoo, "stop-parent-first")
	pids, err := escape.GroupPids(filepath.Join(s.group, "../leaving"))
	if err != nil || len(pids) != 1 {
		t.Fatalf("who stands by: %v, %v", pids, err)
	}
	standby, err := escape.OpenProcess(pids[0])
	if err != nil {
		t.Fatal(err)
	}
	defer standby.Close()
	s.Server.Signal(unix.SIGKILL)
	s.Server.Ended(escape.Patience)
	s.supervisor.Signal(unix.SIGCONT)
	standby.Ended(escape.Patience)
	s.supervisor.Signal(unix.SIGSTOP)
	s.dead(escape.Patience)
}

// A tracer is told of its tracee's death first, and that one's parent when the tracer has waited for it, which this one does not.
func TestTracedSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"all threads": nil, "the first thread": {"first"}} {
		for _, launcher := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, and the launcher %v", name, launcher), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				line := append([]string{binaries.mcpscope, "run", "--backend", "tree", "--term-grace", "infinity", "--", binaries.seizer}, args...)
				c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
				guarded := heldBySeizer(t, c)
				if launcher {
					c.Server.Signal(unix.SIGKILL)
				}
				guarded[0].Signal(unix.SIGKILL)
				for _, p := range guarded {
					if !p.Ended(escape.Patience) {
						t.Errorf("left: %s", escape.Describe(p.PID))
					}
				}
				c.Status(escape.Patience)
				w.clean()
			})
		}
	}
}

// heldBySeizer opens the supervisor that a seizer holds, and the seizer.
func heldBySeizer(t *testing.T, c *escape.Client) (both [2]*escape.Process) {
	t.Helper()
	for i, word := range strings.Fields(c.Expect("out up")) {
		pid, err := strconv.Atoi(word)
		if err == nil {
			both[i], err = escape.OpenProcess(pid)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(both[i].Close)
	}
	return both
}

// A guard that was stopped is continued by the launcher's death, as its supervisor would be.
func TestStoppedGuardOfATracedSupervisor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.NewClient(w.Unique("client"), []string{"--group"}, []string{binaries.mcpscope, "run", "--backend", "tree", "--term-grace", "100ms", "--", binaries.seizer})
	held := heldBySeizer(t, c)
	guard, err := escape.ParentProcess(held[0])
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	guard.Signal(unix.SIGSTOP)
	c.Server.Signal(unix.SIGKILL)
	for _, p := range append(held[:], guard) {
		if !p.Ended(escape.Patience) {
			t.Errorf("left: %s", escape.Describe(p.PID))
		}
	}
	w.clean()
}

// A ladder that runs goes on: nobody is asked again, and the grace is not cut.
func TestKilledLauncherDoesNotStartTheLadderAgain(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	start := time.Now()
	s.Tell("signal %d", unix.SIGINT)
	s.told(3, escape.Patience)
	s.Server.Signal(unix.SIGKILL)
	s.dead(escape.Patience)
	within(t, "the end", time.Since(start), termGrace, termGrace)
	s.wantAsked(3, unix.SIGINT)
}

// Without its supervisor the group is nobody's: no grace.
func TestKilledSupervisorMeansKilledServer(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", long, "--term-grace", long}, "--members", "2")
	s.supervisor.Signal(unix.SIGKILL)
	s.dead(escape.Patience)
	s.wantAsked(0, 0)
	if status := s.Status(escape.Patience); status != "exit 125" {
		t.Errorf("ended with %q, want exit 125", status)
	}
	wantComplaint(t, escape.Contents(s.Stderr))
}

// Nobody can act on the death of another member: to start it again, say. Where cgroup.kill is, all die at once.
func TestNobodyWitnessesTheKill(t *testing.T) {
	t.Parallel()
	for name, line := range map[string][]string{
		"tree":                {binaries.mcpscope, "run", "--backend", "tree"},
		"without cgroup.kill": {binaries.withoutKill, "run", "--backend", "cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer escape.Slots.Take(4)()
			w, m := newWorld(t), escape.NewMembers(t)
			line := append(slices.Clone(line), "--term-grace", "100ms", "--", binaries.Zoo, "--register", m.Address, "witness")
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			if err := m.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; stderr: %s", err, escape.Contents(c.Stderr))
			}
			c.Tell("signal %d", unix.SIGTERM)
			if n := m.UntilDead(escape.Patience); n > 0 {
				t.Errorf("%d members left", n)
			}
			for _, said := range m.Said() {
				t.Errorf("a member %s the death of the main process", said.Text)
			}
			c.Status(escape.Patience)
			w.clean()
		})
	}
}
