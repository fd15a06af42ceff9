// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// A dead client has no use for answers: no EOF grace, no wait for unread input.
func TestDeadClientEndsTheServerWithTheTermGraceOnly(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", never, "--term-grace", never}, "--members", "2")
	s.Tell("write deaf 1000000")
	s.Tell("write never read")
	s.Expect("wrote never read")
	s.Own.Signal(unix.SIGKILL)
	s.told(3, escape.Patience)
	s.stopNow()
	s.wantAsked(3, unix.SIGTERM)
}

// The death of a client that only spawned the server ends nothing if that is asked for: what ends it comes later.
func TestClientDeathCanBeIgnored(t *testing.T) {
	t.Parallel()
	read, stdin := ends(t, "pipe")
	s := spawned(t, read, openNull(t), []string{"--on-client-death", "ignore", "--eof-grace", soon, "--term-grace", never}, []string{binaries.probe})
	read.Close()
	fmt.Fprintln(stdin, "stay")
	s.Own.Signal(unix.SIGKILL)
	s.Server.Ended(0)
	fmt.Fprintln(stdin, "burn 0")
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) || len(s.signals()) > 0 {
		t.Errorf("the server got %v", s.signals())
	}
	stdin.Close()
	s.told(1, escape.Patience)
	s.stopNow()
	s.wantAsked(1, unix.SIGTERM)
}

// Without its launcher the server has the whole term grace; and what was begun is not begun again.
func TestKilledLauncherLeavesTheTermGrace(t *testing.T) {
	for what, signals := range map[string][]unix.Signal{"alone": {unix.SIGKILL}, "after SIGINT": {unix.SIGINT, unix.SIGKILL}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := startProbe(t, []string{"--term-grace", never}, "--members", "2")
			want := unix.SIGTERM
			for _, sig := range signals {
				if sig == unix.SIGINT {
					want = sig
				}
				s.Server.Signal(sig)
				if sig != unix.SIGKILL {
					s.told(3, escape.Patience)
				}
			}
			s.told(3, escape.Patience)
			if !s.Server.Ended(escape.Patience) {
				t.Error("the launcher outlived SIGKILL")
			}
			s.stopNow()
			s.wantAsked(3, want)
		})
	}
}

// Who stands by leaves the server to a supervisor that has come up meanwhile. One that is stopped right then was told of the
// launcher's death before it could be woken by that. Whether somebody stands by still is not for us to choose: then it is
// continued by the launcher's death.
func TestSupervisorStoppedAsItTakesOver(t *testing.T) {
	t.Parallel()
	flags := []string{"--backend", "cgroup", "--term-grace", "100ms"}
	s := startServer(newWorld(t), []string{"--group"}, flags, binaries.Zoo, "stop-parent-first")
	leaving := filepath.Join(s.group, "../leaving")
	pids, _ := escape.GroupPids(leaving) // none, if nobody stands by
	s.Server.Signal(unix.SIGKILL)
	s.Server.Ended(escape.Patience)
	if len(pids) > 0 {
		s.supervisor.Signal(unix.SIGCONT)
		if err := bed.WaitEmpty(leaving, escape.Patience); err != nil {
			t.Error(err)
		}
		s.supervisor.Signal(unix.SIGSTOP)
	}
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

// Without its supervisor the group is nobody's: no grace.
func TestKilledSupervisorMeansKilledServer(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", never, "--term-grace", never}, "--members", "2")
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
