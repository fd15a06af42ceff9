// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// Claude Code: SIGINT, SIGTERM, SIGKILL. A server that takes the second signal for "now" must not get it, and what was begun
// goes on without the launcher.
func TestSecondSignalAsksNobodyTwice(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", never}, "--members", "2")
	s.Tell("signal %d", unix.SIGINT)
	s.told(3, escape.Patience)
	s.Tell("signal %d", unix.SIGTERM)
	s.Tell("signal %d", unix.SIGKILL)
	s.Server.Ended(escape.Patience)
	s.stopNow()
	s.wantAsked(3, unix.SIGINT)
}

// A server may make itself known, and be sent a signal, before the launcher has heard that it runs.
func TestSignalAtOnceReachesTheServer(t *testing.T) {
	t.Parallel()
	atOnce(t, `L=$$; export L; exec "$0" run -- sh -c "$1"`, `trap "exit 7" USR2; kill -USR2 $L; sleep infinity & wait; exit 1`)
}

// systemd may stop a scope, which it does by a SIGWINCH to the guard, as soon as the server runs. A member that is
// born while the others are asked is not asked, so the server forks before, and ends that one itself.
func TestStopAtOnceIsHeard(t *testing.T) {
	t.Parallel()
	atOnce(t, `exec "$0" run --term-grace infinity -- sh -c "$1"`, `trap "kill -9 \$!; exit 7" TERM; sleep infinity & kill -WINCH $PPID; wait; exit 1`)
}

// atOnce has servers that end with 7 when they get a signal, and leave a process.
func atOnce(t *testing.T, launcher, server string) {
	w := newWorld(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 4 {
				cmd := w.Command("sh", "-c", launcher, binaries.mcpscope, server)
				o, err := w.tryRun(cmd)
				if err != nil || o.status.ExitStatus() != 7 {
					t.Errorf("%v, %v; stderr: %s", o.status, err, o.stderr)
				}
			}
		})
	}
	running.Wait()
	w.clean()
}

// Another signal ends nothing, although the launcher has had it: it passes the one on that comes after it.
func TestOnlyTheSameSignalSkipsTheTermGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", never}, "--members", "2")
	s.Tell("signal %d", unix.SIGTERM)
	s.told(3, escape.Patience)
	for _, other := range []unix.Signal{unix.SIGINT, unix.SIGHUP, unix.SIGUSR1} {
		s.Tell("signal %d", other)
	}
	main, _ := s.members.Main()
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool {
		got := transparent.Received(all)[main.PID]
		return len(got) == 2 && got[1] == unix.SIGUSR1
	}) {
		t.Errorf("SIGUSR1 does not arrive: %v", s.signals())
	}
	for i := range 20 { // an end that has begun comes meanwhile
		if !s.Lives(fmt.Sprint("question ", i)) {
			t.Fatalf("another signal left %d of 3 members", len(s.members.Running()))
		}
	}
	s.Tell("signal %d", unix.SIGTERM)
	if s.members.UntilDead(escape.Patience>>6) > 0 { // one that comes within 50 ms of the first is the same
		s.Tell("signal %d", unix.SIGTERM)
	}
	s.dead(escape.Patience)
	if status := s.Status(escape.Patience); status != "signal 9" {
		t.Errorf("ended with %q", status)
	}
}

// A server that ends when it is asked passes its status on; a signal ends the EOF grace.
func TestSignalEndsTheEOFGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", never, "--term-grace", never}, "--members", "2", "--ends")
	s.stay()
	s.Tell("close")
	s.Tell("signal %d", unix.SIGTERM)
	s.dead(escape.Patience)
	if status := s.Status(escape.Patience); status != "exit 0" {
		t.Errorf("ended with %q", status)
	}
}
