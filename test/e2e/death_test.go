// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A dead client has no use for answers: no EOF grace, no wait for unread input.
func TestDeadClientEndsTheServerWithTheTermGraceOnly(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", never, "--term-grace", never}, "--members", "2")
	s.Tell("write deaf 1000000")
	s.Tell("write never read")
	s.Expect("wrote never read")
	s.Own.Signal(unix.SIGKILL)
	s.told(3)
	s.stopNow()
	s.wantAsked(3, unix.SIGTERM)
}

// With --on-client-death ignore a client's death stops nothing. The end of the server's stdin does, later.
func TestClientDeathCanBeIgnored(t *testing.T) {
	t.Parallel()
	read, stdin := ends(t, "pipe")
	report := filepath.Join(t.TempDir(), "report")
	s := spawned(t, read, openNull(t), []string{"--on-client-death", "ignore", "--eof-grace", soon, "--term-grace", never, "--report", report},
		[]string{binaries.probe})
	read.Close()
	fmt.Fprintln(stdin, "stay")
	s.Own.Signal(unix.SIGKILL)
	s.Own.Ended(escape.Patience)
	fmt.Fprintln(stdin, "burn 0")
	if !s.members.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { return len(all) > 0 }) || len(s.signals()) > 0 {
		t.Errorf("the server got %v", s.signals())
	}
	stdin.Close()
	s.told(1)
	s.stopNow()
	if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), `"cause":"stdin-closed"`) {
		t.Errorf("the report is %s (%v)", text, err)
	}
}

// To a client a SIGKILL of the launcher is one of the server: no member is asked, also when a stop has begun.
func TestKilledLauncherIsAKilledServer(t *testing.T) {
	for _, backend := range []string{"cgroup", "tree"} {
		for what, asked := range map[string]bool{"alone": false, "after SIGINT": true} {
			t.Run(backend+"/"+what, func(t *testing.T) {
				t.Parallel()
				report := filepath.Join(t.TempDir(), "report")
				flags := []string{"--backend", backend, "--term-grace", never, "--report", report}
				s := startProbe(t, flags, "--members", "2")
				want := 0
				if asked {
					s.Server.Signal(unix.SIGINT)
					want = 3
					s.told(want)
				}
				s.Server.Signal(unix.SIGKILL)
				s.dead()
				s.wantAsked(want, unix.SIGINT)
				if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), `"killed":[`) {
					t.Errorf("the report is %s (%v)", text, err)
				}
			})
		}
	}
}

// A process's death is reported to its parent only after its tracer has waited for it. The seizer never does.
func TestTracedLauncherIsKilled(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"all threads": nil, "the first thread": {"first"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			line := append([]string{binaries.mcpscope, "run", "--backend", "tree", "--term-grace", soon, "--", binaries.seizer}, args...)
			c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
			held := heldBySeizer(t, c)
			held[0].Signal(unix.SIGKILL)
			escape.WantEnded(t, held[:]...)
			c.Status(escape.Patience)
			w.clean()
		})
	}
}

// heldBySeizer opens the launcher that a seizer holds, and the seizer.
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

// No member can react to another's death, say by a restart. With cgroup.kill, unlike here, all die at once.
func TestNobodyWitnessesTheKill(t *testing.T) {
	t.Parallel()
	defer escape.Slots.Take(4)()
	s := startServer(newWorld(t), []string{"--group"}, []string{"--backend", "tree", "--term-grace", soon}, binaries.Zoo, "witness")
	s.Tell("signal %d", unix.SIGTERM)
	s.dead()
	for _, said := range s.members.Said() {
		t.Errorf("a member %s the death of the main process", said.Text)
	}
}

// A member of the same user may leave the guard without descriptors. The launcher checks before it returns.
func TestGuardWithoutDescriptors(t *testing.T) {
	t.Parallel()
	s := startServer(newWorld(t), []string{"--group"}, []string{"--eof-grace", soon, "--term-grace", soon}, binaries.Zoo, "ignore-both")
	if err := unix.Prlimit(s.guard.PID, unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	s.Tell("close")
	if !s.Server.Ended(escape.Patience) {
		t.Fatal("the launcher did not return")
	}
	if left := s.members.Running(); len(left) > 0 {
		t.Errorf("it returned before they were dead: %q", left)
	}
	s.world.clean()
}

// A server whose stdin another process holds runs on without its client. People learn which process that is.
func TestHolderOfStdinIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const line = `mkfifo in && (exec sleep 1000 >in) & holder=$!
		until [ -p in ]; do :; done
		sh -c '"$0" run --on-client-death ignore --name held -- sh -c "touch up; exec cat" <in >/dev/null & wait' "$0" & client=$!
		until [ -e up ]; do :; done
		kill -KILL $client; wait $client
		"$0" ls 2>&1; "$0" inspect held; "$0" stop held
		kill $holder`
	o := w.run(w.Command("env", "-C", t.TempDir(), "sh", "-c", line, binaries.mcpscope))
	for _, want := range []string{"1 server left by sh, which has ended: sleep[", "stdin held by", "which has ended", "stopped held"} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("no %q in %s%s", want, o.Stdout, o.Stderr)
		}
	}
	w.clean()
}

// The stdin of a server closes before its killed client has ended. The report says both.
func TestReportOfAKilledClient(t *testing.T) {
	t.Parallel()
	// The server of the killed client ends by that death alone: at its end of stdin the client may still be exiting.
	for signal, mode := range map[unix.Signal]string{0: "plain", unix.SIGKILL: "ignore-eof"} {
		report := filepath.Join(t.TempDir(), "report")
		s := startServer(newWorld(t), nil, []string{"--eof-grace", never, "--report", report}, binaries.Zoo, mode)
		if signal == 0 {
			s.Tell("close")
		} else {
			s.Own.Signal(signal)
		}
		s.dead()
		text, err := os.ReadFile(report)
		hasEnded := strings.Contains(string(text), `"client_ended":true`)
		if err != nil || !strings.Contains(string(text), `"cause":"`) || hasEnded != (signal != 0) {
			t.Errorf("after signal %d of the client: %s, %v", signal, text, err)
		}
	}
}

// systemd-oomd leaves a mark on the group that it kills. Another SIGKILL leaves no mark.
func TestKilledBySystemdOOMD(t *testing.T) {
	t.Parallel()
	for want, marked := range map[string]bool{`"cause":"out-of-memory"`: true, `"cause":"main-exited"`: false} {
		report := filepath.Join(t.TempDir(), "report")
		s := startServer(newWorld(t), []string{"--group"}, []string{"--report", report}, binaries.Zoo, "plain")
		if marked {
			if err := unix.Setxattr(s.group, "user.oomd_ooms", []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
		}
		main, _ := s.members.Main()
		main.Signal(unix.SIGKILL)
		s.dead()
		text, err := os.ReadFile(report)
		if err != nil || !strings.Contains(string(text), want) || strings.Contains(string(text), `"oomd":true`) != marked {
			t.Errorf("marked %v: %s, %v", marked, text, err)
		}
	}
}

// A member may freeze the leaf of the guards. The next start of the user thaws it, and a sweep ends the server whose
// launcher is dead, too.
func TestFrozenGuards(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){
		"start": func(s *server) {
			s.Tell("close")
			s.world.run(s.world.mcpscope("run", "--", "true"))
		},
		"sweep": func(s *server) {
			s.Server.Signal(unix.SIGKILL)
			s.Server.Ended(escape.Patience)
			s.world.run(s.world.mcpscope("sweep"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := startServer(w, []string{"--group"}, []string{"--eof-grace", soon, "--term-grace", soon}, binaries.Zoo, "ignore-both")
			escape.AwaitSettled(s.guard)
			freezeGroupOf(t, s.guard)
			end(s)
			s.dead()
		})
	}
}

// Without a helper the server gets one signal. A repeated signal ends the grace, and if the launcher dies meanwhile
// the guard stops the rest.
func TestGraceWithoutHelper(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){
		"repeated": func(s *server) { s.Tell("signal %d", unix.SIGTERM) },
		"launcher": func(s *server) { s.Server.Signal(unix.SIGKILL) },
	} {
		for _, backend := range []string{"cgroup", "tree"} {
			t.Run(name+"/"+backend, func(t *testing.T) {
				t.Parallel()
				s := startProbe(t, []string{"--backend", backend, "--term-grace", never})
				escape.AwaitSettled(s.guard)
				if err := unix.Prlimit(s.guard.PID, unix.RLIMIT_AS, &unix.Rlimit{}, nil); err != nil { // of helpers, too
					t.Fatal(err)
				}
				if backend == "cgroup" { // and a person has frozen it
					_, id := s.members.Main()
					s.world.wantSuccess("freeze", id)
				}
				before := waits(t, s.guard)
				s.Tell("signal %d", unix.SIGTERM)
				s.told(1)
				pace.Eventually(escape.Patience, func() bool { return waits(t, s.guard) > before+100 }) // it polls in the grace
				s.wantAsked(1, unix.SIGTERM)
				end(s)
				s.dead()
			})
		}
	}
}

// waits counts how often a process has waited.
func waits(t *testing.T, p *escape.Process) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	_, after, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
	n, failed := strconv.Atoi(strings.TrimSpace(strings.SplitN(after, "\n", 2)[0]))
	if err := errors.Join(err, failed); err != nil {
		t.Error(err)
	}
	return n
}

// A launcher that can fork no other guard ends the server when the client wants that.
func TestGuardThatCannotBeReplaced(t *testing.T) {
	t.Parallel()
	for _, signal := range []bool{false, true} {
		t.Run(fmt.Sprint("signal=", signal), func(t *testing.T) {
			t.Parallel()
			s := startServer(newWorld(t), []string{"--group"}, []string{"--eof-grace", soon, "--term-grace", soon}, binaries.Zoo, "ignore-both")
			if err := unix.Prlimit(s.Server.PID, unix.RLIMIT_AS, &unix.Rlimit{}, nil); err != nil {
				t.Fatal(err)
			}
			s.guard.Signal(unix.SIGKILL)
			if signal {
				s.Tell("signal %d", unix.SIGTERM)
			} else {
				s.Tell("close")
			}
			s.members.WantDead(t)
			escape.WantEnded(t, s.Server)
		})
	}
}

// A member that left the group, and has no tag, kills guards while it forks orphans. They are the launcher's all the
// time.
func TestOrphansWhileGuardsAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := w.Group("out")
	const server = `prlimit --pid $$ --locks=unlimited && echo $$ >"$0/cgroup.procs" || exit 1
		(for i in $(seq 20); do pkill -KILL -x "guard-$MCPSCOPE_ID"; done) &
		for i in $(seq 200); do (sleep 1000 &); done
		wait; exit 7`
	o := w.run(w.mcpscope("run", "--backend", "cgroup", "--", "sh", "-c", server, w.Seen(out)))
	if o.Status.ExitStatus() != 7 {
		t.Errorf("%v; stderr: %s", o.Status, o.Stderr)
	}
	if pids, err := escape.GroupPids(out); err != nil || len(pids) > 0 {
		t.Errorf("%d orphans are left (%v)", len(pids), err)
	}
	w.clean()
}

// A stopped launcher stops nothing: its server runs on. At the next event that the launcher must handle, its
// guard continues it.
func TestStoppedLauncher(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*server){
		"stdin": func(s *server) { s.Tell("close") },
		"main": func(s *server) {
			main, _ := s.members.Main()
			main.Signal(unix.SIGKILL)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startProbe(t, []string{"--eof-grace", soon, "--term-grace", soon}, "--members", "2")
			s.Server.Signal(unix.SIGSTOP)
			if !s.Lives("hello") {
				t.Error("the server does not answer while its launcher is stopped")
			}
			end(s)
			s.dead()
		})
	}
}

// A guard can be killed between a request of a stop and its reaction. The guard after it has the request: the
// members get SIGTERM, and mcpscope stop returns when nothing is left.
func TestStopWhileTheGuardIsKilled(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"cgroup", "tree"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			isMet := func() bool { return killGuardInAStop(t, backend) }
			if !pace.Eventually(escape.Patience, isMet) {
				t.Error("no guard was killed before it had read the request")
			}
		})
	}
}

// killGuardInAStop stops a server whose guard is frozen, and kills the guard when the request waits for it.
// The launcher thaws a guard that is late with a step, and that may have been the last one of the start. So
// the guard may read the request: then it is not killed in time, and the result is false.
func killGuardInAStop(t *testing.T, backend string) (isMet bool) {
	s := startProbe(t, []string{"--backend", backend}, "--members", "2")
	s.hasNoHelper()
	frozen := freezeGroupOf(t, s.guard)
	defer frozen("0")
	_, id := s.members.Main()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.world.wantSuccess("stop", "--grace", "infinity", id)
	}()
	hasEnded := false
	pace.Eventually(escape.Patience, func() bool {
		select {
		case <-stopped:
			hasEnded = true
		default:
			isMet = isPending(s.guard, unix.SIGWINCH)
		}
		return isMet || hasEnded
	})
	if isMet {
		s.guard.Signal(unix.SIGKILL)
		escape.WantEnded(t, s.guard)
	}
	frozen("0")
	<-stopped
	s.wantAsked(3, unix.SIGTERM)
	s.dead()
	return isMet
}

// freezeGroupOf freezes the group of a process, and returns what writes its cgroup.freeze.
func freezeGroupOf(t *testing.T, p *escape.Process) func(value string) {
	t.Helper()
	where, err := bed.ProcessPath(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := bed.Directory(where)
	if err != nil {
		t.Fatal(err)
	}
	write := func(value string) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	write("1")
	isFrozen := func(events string) bool { return strings.Contains(events, "frozen 1") }
	if err := escape.AwaitText(filepath.Join(dir, "cgroup.events"), escape.Patience, isFrozen); err != nil {
		t.Fatal(err)
	}
	return write
}

// isPending reports whether a signal waits for a process.
func isPending(p *escape.Process, sig unix.Signal) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID)) // none, if it has ended
	_, after, _ := strings.Cut(string(text), "\nShdPnd:\t")
	mask, _, _ := strings.Cut(after, "\n")
	pending, _ := strconv.ParseUint(mask, 16, 64)
	return pending&(1<<(sig-1)) != 0
}

// A launcher that is frozen with its client can't be continued. The guard starts a process that replaces it.
func TestFrozenLauncher(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--term-grace", soon}, "--members", "2")
	freeze := freezeGroupOf(t, s.Server)
	defer freeze("0")
	s.Own.Signal(unix.SIGKILL) // that closes the server's stdin
	s.members.WantDead(t)
	freeze("0")
	s.dead()
}

// The CPU time of a tree is that of the launcher's descendants. Without the launcher it is unknown, and not 0.
func TestReportOfATreeWithoutItsLauncher(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		backend string
		knows   bool
	}{{"tree", false}, {"auto", true}} {
		report := filepath.Join(t.TempDir(), "report")
		flags := []string{"--backend", c.backend, "--term-grace", soon, "--report", report}
		s := startServer(newWorld(t), []string{"--group"}, flags, binaries.Zoo, "plain")
		s.Server.Signal(unix.SIGKILL)
		s.members.WantDead(t)
		escape.WantEnded(t, s.guard)
		text, err := os.ReadFile(report)
		knows := strings.Contains(string(text), `"cpu_seconds":`)
		if err != nil || knows != c.knows || !strings.Contains(string(text), `"cause":"launcher-gone"`) {
			t.Errorf("%s: the report is %s (%v)", c.backend, text, err)
		}
	}
}
