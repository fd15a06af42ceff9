// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// Claude Code sends SIGINT, SIGTERM, SIGKILL. A server that exits at once on a second signal must not get
// one, and a stop that has begun goes on without the launcher.
func TestSecondSignalAsksNobodyTwice(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", never}, "--members", "2")
	s.Tell("signal %d", unix.SIGINT)
	s.told(3)
	s.Tell("signal %d", unix.SIGTERM)
	s.Tell("signal %d", unix.SIGKILL)
	s.dead()
	s.wantAsked(3, unix.SIGINT)
}

// A signal may arrive as soon as the server runs, before its start is reported to the launcher.
func TestSignalAtOnceReachesTheServer(t *testing.T) {
	t.Parallel()
	atOnce(t, `L=$$; export L; exec "$0" run -- sh -c "$1"`, `trap "exit 7" USR2; kill -USR2 $L; sleep infinity & wait; exit 1`)
}

// Real-time signals are passed on like any other.
func TestRealTimeSignalReachesTheServer(t *testing.T) {
	t.Parallel()
	atOnce(t, `L=$$; export L; exec "$0" run -- sh -c "$1"`, `trap "exit 7" 37; kill -37 $L; sleep infinity & wait; exit 1`)
}

// The report of the end goes to a full pipe. Signals meanwhile mean nothing: the server has its status.
func TestSignalsWhileTheEndIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// The launcher closes its copy of descriptor 4 when the server runs, and the server when it has ended.
	const script = `cd "$1" && mkfifo pipe gone && exec 3<>pipe && head -c 65536 /dev/zero >&3
		"$0" run --report fd:3 -- sh -c 'exit 7' </dev/null 4>gone & run=$!
		cat gone
		while kill -TERM $run && kill -INT $run; do :; done 2>/dev/null
		wait $run`
	if o := w.run(w.Command("sh", "-c", script, binaries.mcpscope, t.TempDir())); o.Status.ExitStatus() != 7 {
		t.Errorf("%v; stderr: %s", o.Status, o.Stderr)
	}
	w.clean()
}

// A client may send signals when it has read all output, since it can't know that the server has ended. They mean
// nothing any more, whether or not the launcher has something to report.
func TestSignalsAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"--stderr inherit", "--verbose", "--name ends --backend cgroup --verbose", "--report /dev/null"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const tries = 8
			for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGQUIT, unix.SIGUSR1, unix.SIGABRT, unix.SIGTSTP, 40} {
				for range tries {
					line := append([]string{binaries.mcpscope, "run"}, strings.Fields(flags)...)
					cmd := w.Command(append(line, "--", "sh", "-c", "trap '' TERM QUIT USR1 ABRT TSTP 40; exit 7")...)
					out, err := cmd.StdoutPipe()
					if err == nil {
						err = escape.StartIn(w.Dir, cmd)
					}
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, out)
					time.Sleep(rand.N(4 * time.Millisecond)) // a random moment of the end, not an event
					_ = cmd.Process.Signal(sig)              // it has ended
					_ = cmd.Wait()
					if got := cmd.ProcessState.ExitCode(); got != 7 {
						t.Errorf("%v: %v", sig, cmd.ProcessState)
					}
				}
			}
		})
	}
}

// A signal that comes while the launcher starts ends it, or the server: none is lost. (QUIT is left out: the Go
// runtime answers it by a trace before any code of ours runs.)
func TestSignalWhileItStarts(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "--stderr inherit", "--report /dev/null", "--backend tree"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const tries = 60
			for range tries {
				line := append([]string{binaries.mcpscope, "run"}, strings.Fields(flags)...)
				cmd := w.Command(append(line, "--", "sleep", "infinity")...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				if err := escape.StartIn(w.Dir, cmd); err != nil {
					t.Fatal(err)
				}
				launcher, err := escape.OpenProcess(cmd.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				all := []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1}
				sig := all[rand.IntN(len(all))]
				time.Sleep(rand.N(6 * time.Millisecond)) // a random moment of the start, not an event
				launcher.Signal(sig)
				if !launcher.Ended(escape.Patience) {
					t.Errorf("%v is lost", sig)
					launcher.Signal(unix.SIGKILL)
				}
				launcher.Close()
				_ = cmd.Wait()
				if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != sig || stderr.Len() > 0 {
					t.Errorf("%v: %v; stderr: %s", sig, cmd.ProcessState, stderr.String())
				}
			}
		})
	}
}

// Signals that the client ignores or blocks mean nothing, also to a launcher that has a Go runtime.
func TestSignalsThatTheClientIgnores(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const script = `trap "" TERM QUIT INT HUP; cd "$1" && mkfifo in && exec 3<>in
		"$0" run $2 -- sh -c 'touch up; cat; exit 7' <in 3>&- & run=$!
		until [ -e up ]; do :; done
		for sig in TERM QUIT INT HUP; do kill -$sig $run; done
		echo x >&3; exec 3>&-; wait $run`
	for _, flags := range []string{"", "--stderr inherit", "--report /dev/null", "--verbose", "--backend tree"} {
		o := w.run(w.Command("sh", "-c", script, binaries.mcpscope, t.TempDir(), flags))
		if o.Status.ExitStatus() != 7 {
			t.Errorf("%q: %v; stderr: %s", flags, o.Status, o.Stderr)
		}
	}
}

// A server may stop its launcher before that knows that it runs. The guard sees its end, and continues the launcher.
func TestLauncherStoppedAtOnce(t *testing.T) {
	t.Parallel()
	atOnce(t, `exec "$0" run -- sh -c "$1"`, "kill -STOP $PPID; exit 7")
	atOnce(t, `exec "$0" run --verbose -- sh -c "$1"`, "kill -STOP $PPID; exit 7")
}

// systemd may stop a scope as soon as the server runs, by SIGWINCH to the guard. A member that is born while
// the others get SIGTERM does not get it. So the server forks before, and kills the child itself.
func TestStopAtOnceIsHeard(t *testing.T) {
	t.Parallel()
	atOnce(t, `exec "$0" run --term-grace infinity -- sh -c "$1"`, `trap "kill -9 \$!; exit 7" TERM; sleep infinity & until guard=$(pgrep -x "guard-$MCPSCOPE_ID"); do :; done; kill -WINCH $guard; wait; exit 1`)
}

// atOnce runs servers that exit with 7 when they get a signal, and leave a process.
func atOnce(t *testing.T, launcher, server string) {
	w := newWorld(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 4 {
				cmd := w.Command("sh", "-c", launcher, binaries.mcpscope, server)
				o, err := escape.Finish(w.Dir, cmd)
				if err != nil || o.Status.ExitStatus() != 7 {
					t.Errorf("%v, %v; stderr: %s", o.Status, err, o.Stderr)
				}
			}
		})
	}
	running.Wait()
	w.clean()
}

// Another signal does not skip the grace. The launcher has read it when SIGUSR1, sent after it, arrives.
func TestOnlyTheSameSignalSkipsTheTermGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", never}, "--members", "2")
	s.Tell("signal %d", unix.SIGTERM)
	s.told(3)
	for _, other := range []unix.Signal{unix.SIGINT, unix.SIGQUIT, unix.SIGUSR1} {
		s.Tell("signal %d", other)
	}
	main, _ := s.members.Main()
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool {
		got := transparent.Received(all)[main.PID]
		return len(got) == 2 && got[1] == unix.SIGUSR1
	}) {
		t.Errorf("SIGUSR1 does not arrive: %v", s.signals())
	}
	for i := range 20 { // a kill that has begun comes meanwhile
		if !s.Lives(fmt.Sprint("question ", i)) {
			t.Fatalf("another signal left %d of 3 members", len(s.members.Running()))
		}
	}
	s.Tell("signal %d", unix.SIGTERM)
	if s.members.UntilDead(escape.Patience>>6) > 0 { // within 50 ms of the first it counts as the same signal
		s.Tell("signal %d", unix.SIGTERM)
	}
	s.dead()
	if status := s.Status(escape.Patience); status != "signal 9" {
		t.Errorf("ended with %q", status)
	}
}

// A signal ends the EOF grace. The status of a server that exits on SIGTERM is passed on.
func TestSignalEndsTheEOFGrace(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", never, "--term-grace", never}, "--members", "2", "--ends")
	s.stay()
	s.Tell("close")
	s.Tell("signal %d", unix.SIGTERM)
	s.dead()
	if status := s.Status(escape.Patience); status != "exit 0" {
		t.Errorf("ended with %q", status)
	}
}
