// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// Who ends when asked passes its status on, at once.
func TestServerThatEndsWhenAskedIsNotKilled(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", long}, "--members", "2", "--ends")
	s.Tell("signal %d", unix.SIGTERM)
	if status := s.Status(escape.Patience); status != "exit 0" {
		t.Errorf("ended with %q", status)
	}
	s.dead(escape.Patience)
}

// Claude Code: SIGINT, 100 ms, SIGTERM, 400 ms, SIGKILL. A server that takes the
// second signal for "now" must not get it, and the ladder goes on without the
// launcher.
func TestSecondSignalAsksNobodyTwice(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	s.Tell("signal %d", unix.SIGINT)
	<-time.After(100 * time.Millisecond) // the client's own pace
	s.Tell("signal %d", unix.SIGTERM)
	<-time.After(400 * time.Millisecond)
	s.Tell("signal %d", unix.SIGKILL)
	s.dead(escape.Patience)
	s.wantAsked(3, unix.SIGINT)
}

// A server may make itself known, and be sent a signal, before the launcher has heard that it
// runs.
func TestSignalAtOnceReachesTheServer(t *testing.T) {
	t.Parallel()
	const server = `trap "exit 7" USR2; kill -USR2 $L; sleep 20 & wait; exit 1`
	w := newWorld(t)
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			o, err := w.tryRun(w.Command("sh", "-c", `L=$$; export L; exec "$0" run -- sh -c "$1"`, binaries.mcpscope, server))
			if err != nil || o.status.ExitStatus() != 7 {
				t.Errorf("%v, %v; stderr: %s", o.status, err, o.stderr)
			}
		})
	}
	running.Wait()
	w.clean()
}

// systemd may stop a scope, which it does by a SIGWINCH to the supervisor, as soon as the server runs.
func TestStopAtOnceIsHeard(t *testing.T) {
	t.Parallel()
	const server = `trap "exit 7" TERM; kill -WINCH $PPID; sleep 20 & wait; exit 1`
	w := newWorld(t)
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			o, err := w.tryRun(w.Command(binaries.mcpscope, "run", "--", "sh", "-c", server))
			if err != nil || o.status.ExitStatus() != 7 {
				t.Errorf("%v, %v; stderr: %s", o.status, err, o.stderr)
			}
		})
	}
	running.Wait()
	w.clean()
}

func TestOnlyTheSameSignalSkipsTheTermGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", long}, "--members", "2")
	s.Tell("signal %d", unix.SIGTERM)
	s.told(3, escape.Patience)
	s.Tell("signal %d", unix.SIGINT)
	s.Tell("signal %d", unix.SIGHUP)
	if n := s.members.UntilDead(time.Second); n != 3 {
		t.Errorf("another signal left %d of 3 members", n)
	}
	s.Tell("signal %d", unix.SIGTERM)
	s.dead(escape.Patience)
	s.wantAsked(3, unix.SIGTERM)
	if status := s.Status(escape.Patience); status != "signal 9" {
		t.Errorf("ended with %q", status)
	}
}

func TestSignalEndsTheEOFGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", long, "--term-grace", "300ms"}, "--members", "2")
	s.stay()
	s.Tell("close")
	s.Tell("signal %d", unix.SIGTERM)
	s.told(3, escape.Patience)
	s.dead(escape.Patience)
	s.wantAsked(3, unix.SIGTERM)
}
