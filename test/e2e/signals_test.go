package e2e

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Each way in which a client signals the launcher reaches each member once: the
// payload is in no process group with it.
func TestSignalReachesEveryMemberOnce(t *testing.T) {
	for _, way := range []struct{ name, option, command string }{
		{"pid", "--group", "signal"}, {"group", "--group", "killpg"}, {"session", "--session", "killpg"},
	} {
		for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT} {
			t.Run(way.name+"/"+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				s := startServer(newWorld(t), []string{way.option}, []string{"--term-grace", "300ms"}, binaries.probe, "--members", "4")
				s.tell("%s %d", way.command, sig)
				s.told(5, patience)
				s.dead(patience)
				s.wantAsked(5, sig)
			})
		}
	}
}

// Who ends when asked passes its status on, at once.
func TestServerThatEndsWhenAskedIsNotKilled(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", long}, "--members", "2", "--ends")
	s.tell("signal %d", unix.SIGTERM)
	if status := s.status(patience); status != "exit 0" {
		t.Errorf("ended with %q", status)
	}
	s.dead(patience)
}

// Claude Code: SIGINT, 100 ms, SIGTERM, 400 ms, SIGKILL. A server that takes the
// second signal for "now" must not get it, and the ladder goes on without the
// launcher.
func TestSecondSignalAsksNobodyTwice(t *testing.T) {
	t.Parallel()
	s := startProbe(t, nil, "--members", "2")
	s.tell("signal %d", unix.SIGINT)
	<-time.After(100 * time.Millisecond) // the client's own pace
	s.tell("signal %d", unix.SIGTERM)
	<-time.After(400 * time.Millisecond)
	s.tell("signal %d", unix.SIGKILL)
	s.dead(patience)
	s.wantAsked(3, unix.SIGINT)
}

func TestOnlyTheSameSignalSkipsTheTermGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", long}, "--members", "2")
	s.tell("signal %d", unix.SIGTERM)
	s.told(3, patience)
	s.tell("signal %d", unix.SIGINT)
	s.tell("signal %d", unix.SIGHUP)
	if n := s.members.untilDead(time.Second); n != 3 {
		t.Errorf("another signal left %d of 3 members", n)
	}
	s.tell("signal %d", unix.SIGTERM)
	s.dead(patience)
	s.wantAsked(3, unix.SIGTERM)
	if status := s.status(patience); status != "signal 9" {
		t.Errorf("ended with %q", status)
	}
}

func TestSignalEndsTheEOFGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", long, "--term-grace", "300ms"}, "--members", "2")
	s.stay()
	s.tell("close")
	s.tell("signal %d", unix.SIGTERM)
	s.told(3, patience)
	s.dead(patience)
	s.wantAsked(3, unix.SIGTERM)
}

// Signals that do not ask for an end are the main process's alone.
func TestOtherSignalsGoToTheMainProcess(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			s := startProbe(t, nil, "--members", "2")
			s.tell("signal %d", sig)
			s.told(1, patience)
			if !s.lives("still there?") {
				t.Error("the server does not answer")
			}
			s.wantAsked(1, sig)
			if got := s.signals()[s.members.main.pid]; len(got) != 1 {
				t.Errorf("the main process got %v", got)
			}
			s.tell("close")
			s.dead(patience)
		})
	}
}
