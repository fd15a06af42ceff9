// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// The default graces, and what a busy machine may be early or late by: clocks
// differ between processes by less than early; late is for the scheduler.
const (
	eofGrace  = 1200 * time.Millisecond
	termGrace = 1000 * time.Millisecond
	early     = 20 * time.Millisecond
	late      = 8 * time.Second
)

// long is a grace that no test waits for.
const long = "60s"

// within fails the test unless d lies between least and most.
func within(t *testing.T, what string, d, least, most time.Duration) {
	t.Helper()
	if d < least-early || d > most+late {
		t.Errorf("%s after %v, want %v to %v", what, d, least, most)
	}
}

// Answers that come within the EOF grace arrive, and the server ends unasked.
func TestServerMayAnswerAfterTheEndOfStdin(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "0")
	s.Tell("write late 700")
	s.Tell("close")
	s.Expect("out answer")
	if status := s.Status(escape.Patience); status != "exit 0" {
		t.Errorf("ended with %q", status)
	}
	s.dead(escape.Patience)
	s.wantAsked(0, 0)
}

func TestServerThatStaysIsAskedAfterTheEOFGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	s.stay()
	start := time.Now()
	s.Tell("close")
	within(t, "SIGTERM", s.told(3, escape.Patience).Sub(start), eofGrace, eofGrace)
	s.dead(escape.Patience)
	within(t, "the end", time.Since(start), eofGrace+termGrace, eofGrace+termGrace)
	s.wantAsked(3, unix.SIGTERM)
	if status := s.Status(escape.Patience); status != "signal 9" {
		t.Errorf("ended with %q", status)
	}
}

// stay makes a probe ignore the end of its stdin. It answers, so that the line
// has been read.
func (s *server) stay() {
	s.world.T.Helper()
	s.Tell("write stay")
	if !s.Lives("stays") {
		s.world.T.Fatal("the probe does not answer")
	}
}

// What the client wrote last is read before the EOF grace begins, on a pipe and
// on a socketpair, which Node.js uses.
func TestUnreadInputDelaysTheEOFGrace(t *testing.T) {
	for _, options := range [][]string{{"--group"}, {"--group", "--socketpair"}} {
		t.Run(strings.Join(options, ""), func(t *testing.T) {
			t.Parallel()
			s := startServer(newWorld(t), options, nil, binaries.probe)
			for _, line := range []string{"deaf 2500", "late 200", "last request"} {
				s.Tell("write %s", line)
			}
			s.Tell("close")
			s.Expect("out last request")
			s.Expect("out answer")
			s.dead(escape.Patience)
			s.wantAsked(0, 0)
		})
	}
}

// A server that never reads is given 10 s more.
func TestUnreadInputDelaysTheEOFGraceForAWhile(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil)
	s.Tell("write deaf 60000")
	s.Tell("write never read")
	start := time.Now()
	s.Tell("close")
	within(t, "SIGTERM", s.told(1, 2*escape.Patience).Sub(start), 10*time.Second+eofGrace, 10*time.Second+eofGrace)
	s.dead(escape.Patience)
}

// Left-over processes are asked and ended; the main process's status stays, and
// comes only when they are dead.
func TestLeftOverProcessesAreEndedAndTheStatusKept(t *testing.T) {
	for command, want := range map[string]string{"exit 7": "exit 7", "exit 0": "exit 0", "die 10": "signal 10"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			s := startProbe(t, []string{"--term-grace", "500ms"}, "--members", "2")
			start := time.Now()
			s.Tell("write %s", command)
			if status := s.Status(escape.Patience); status != want {
				t.Errorf("ended with %q, want %q", status, want)
			}
			if left := s.members.Running(); len(left) > 0 {
				t.Errorf("the launcher returned before they were dead: %q", left)
			}
			within(t, "the end", time.Since(start), 500*time.Millisecond, 500*time.Millisecond)
			s.dead(escape.Patience)
			s.wantAsked(2, unix.SIGTERM)
		})
	}
}

// A client that does not listen any more is as good as one that has closed stdin.
func TestClosedStdoutEndsTheServer(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	start := time.Now()
	s.Tell("close-stdout")
	within(t, "SIGTERM", s.told(3, escape.Patience).Sub(start), eofGrace, eofGrace)
	s.dead(escape.Patience)
	s.wantAsked(3, unix.SIGTERM)
}

// Nobody but the server holds its stdin and stdout: when it closes them the
// client is told at once, as if mcpscope was not there.
func TestOnlyTheServerHoldsItsDescriptors(t *testing.T) {
	for _, options := range [][]string{{"--group"}, {"--group", "--socketpair"}} {
		for fd, told := range map[string]string{"0": "error write: Broken pipe", "1": "stdout-eof"} {
			t.Run(strings.Join(options, "")+"/"+fd, func(t *testing.T) {
				t.Parallel()
				s := startServer(newWorld(t), options, []string{"--term-grace", "300ms"}, binaries.probe)
				s.Tell("write close %s", fd)
				if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) {
					t.Fatal("the probe has not closed it")
				}
				said := false
				for deadline := time.Now().Add(escape.Patience); !said && time.Now().Before(deadline); { // who starts it lets go of them a moment later
					s.Tell("write more")
					_, said = s.Find(told, 50*time.Millisecond)
				}
				s.Expect(told)
				s.wantAsked(0, 0)
				s.Tell("signal %d", unix.SIGTERM)
				s.dead(escape.Patience)
			})
		}
	}
}
