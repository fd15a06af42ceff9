// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
	"github.com/mcpscope/mcpscope/test/registry"
)

// When a server is frozen is tested in virtual time (internal/server/idle); these tests freeze real ones.

// answered is less than a breath, after which a lost wake is healed.
const answered = 30 * time.Second

var channels = map[string][]string{"pipes": {"--group"}, "socketpairs": {"--group", "--socketpair"}}

// idleProbe is a probe that is frozen now.
func idleProbe(t *testing.T, options, flags []string, args ...string) *server {
	t.Helper()
	flags = append([]string{"--idle-freeze", "20ms"}, flags...)
	s := startServer(newWorld(t), options, flags, append([]string{binaries.probe}, args...)...)
	s.idle(0)
	return s
}

func (s *server) idle(wakes int) {
	s.world.T.Helper()
	if err := escape.AwaitIdle(s.group, wakes, escape.Patience); err != nil {
		s.world.T.Fatal(err)
	}
}

// frozenNow is of the kernel.
func (s *server) frozenNow() bool {
	text, _ := os.ReadFile(filepath.Join(s.group, "cgroup.events"))
	return strings.Contains(string(text), "frozen 1")
}

// onChannels runs a test for pipes and for socketpairs, which Node.js uses.
func onChannels(t *testing.T, test func(t *testing.T, options []string)) {
	t.Parallel()
	for name, options := range channels {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, options)
		})
	}
}

func TestIdleServerAnswers(t *testing.T) {
	onChannels(t, func(t *testing.T, options []string) {
		s := idleProbe(t, options, nil, "--members", "2")
		for i := range 5 {
			s.idle(i)
			for part := range 3 {
				s.Tell("write message %d.%d", i, part)
			}
			for part := range 3 {
				want := fmt.Sprintf("out message %d.%d", i, part)
				if _, found := s.Find(want, answered); !found {
					t.Fatalf("no %q: a message was lost", want)
				}
			}
		}
		answers := slices.DeleteFunc(s.Lines(), func(line string) bool { return !strings.HasPrefix(line, "out ") })
		if !slices.IsSorted(answers) || len(answers) != 15 {
			t.Errorf("the answers are %q", answers)
		}
		s.Tell("close")
		s.dead()
		if status := s.Status(escape.Patience); status != "exit 0" {
			t.Errorf("ended with %q", status)
		}
	})
}

// Whatever ends a server thaws it first: it gets its signal, once, and can act on it.
func TestIdleServerEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*server)
		want unix.Signal
	}{
		"stdin closed":    {func(s *server) { s.Tell("close") }, unix.SIGTERM},
		"stdout closed":   {func(s *server) { s.Tell("close-stdout") }, unix.SIGTERM},
		"client killed":   {func(s *server) { s.Own.Signal(unix.SIGKILL) }, unix.SIGTERM},
		"SIGTERM":         {func(s *server) { s.Tell("signal 15") }, unix.SIGTERM},
		"SIGINT":          {func(s *server) { s.Tell("signal 2") }, unix.SIGINT},
		"launcher killed": {func(s *server) { s.Server.Signal(unix.SIGKILL) }, 0},
		"stop": {func(s *server) {
			_, id := s.members.Main()
			s.world.wantSuccess("stop", "--grace", "0", id)
		}, 0},
		"guard killed": {func(s *server) {
			s.guard.Signal(unix.SIGKILL)
			s.guard.Ended(escape.Patience)
			if !s.Lives("without the first guard") {
				s.world.T.Error("no answer after the guard was killed")
			}
			s.stay()
			s.Tell("close")
		}, unix.SIGTERM},
		"both killed": {func(s *server) {
			if err := escape.KillTogether(s.guard, s.Server); err != nil {
				s.world.T.Fatal(err)
			}
			s.world.wantSuccess("sweep", "--quiet")
		}, 0},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			onChannels(t, func(t *testing.T, options []string) {
				grace := never
				if c.want == 0 {
					grace = soon
				}
				s := idleProbe(t, options, []string{"--eof-grace", soon, "--term-grace", grace}, "--members", "2")
				s.stay()
				s.idle(0)
				c.end(s)
				if c.want != 0 {
					s.told(3)
					s.stopNow()
					s.wantAsked(3, c.want)
				}
				s.dead()
			})
		})
	}
}

// A server whose memory was not reclaimed has nothing to read back, so its grace is no longer than that of one
// that runs. Another server with a long grace, which the same load delays, has to outlive it.
func TestIdleServerHasItsOwnGrace(t *testing.T) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		t.Fatal(err)
	}
	if host.Freeswap != 0 {
		t.Skip("SKIP: the host has swap, so the memory of an idle server is reclaimed")
	}
	onChannels(t, func(t *testing.T, options []string) {
		slow := policy.ReclaimedWithin - time.Second
		control := startProbe(t, []string{"--term-grace", slow.String()})
		control.stay()
		s := idleProbe(t, options, []string{"--term-grace", soon}, "--members", "2")
		s.stay()
		s.idle(0)
		s.hasNoHelper() // so the one that stops the server has only what the page has
		s.Own.Signal(unix.SIGKILL)
		control.Own.Signal(unix.SIGKILL)
		s.members.WantDead(t)
		if control.members.UntilDead(0) == 0 {
			t.Errorf("it had a grace of more than %v, as if its memory had been reclaimed", slow)
		}
		s.dead()
		control.dead()
	})
}

// Between two looks nothing runs but launcher and guard, whether the server is frozen or not.
func TestNoHelperBetweenLooks(t *testing.T) {
	t.Parallel()
	running := startProbe(t, []string{"--idle-freeze", "10m"})
	running.hasNoHelper()
	s := idleProbe(t, []string{"--group"}, nil)
	for wakes := range 3 {
		s.idle(wakes)
		s.hasNoHelper()
		if !s.Lives(fmt.Sprint("after ", wakes)) {
			t.Error("no answer")
		}
	}
	s.idle(3)
	s.hasNoHelper()
	s.Tell("close")
	s.dead()
}

// Helpers die one after the other, as where no memory is free for a while. Later ones look after the server again.
func TestIdleAfterHelpersDied(t *testing.T) {
	t.Parallel()
	s := idleProbe(t, []string{"--group"}, nil)
	s.hasNoHelper()
	noMemory := unix.Rlimit{Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.guard.PID, unix.RLIMIT_AS, &noMemory, nil); err != nil { // of helpers, too
		t.Fatal(err)
	}
	before := waits(t, s.guard)
	if !s.Lives("awake") {
		t.Error("no answer")
	}
	// it waits for the input, and then for each helper
	pace.Eventually(escape.Patience, func() bool { return waits(t, s.guard) >= before+4 })
	s.hasNoHelper()
	enough := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(s.guard.PID, unix.RLIMIT_AS, &enough, nil); err != nil {
		t.Fatal(err)
	}
	if !pace.Eventually(escape.Patience, s.frozenNow) {
		t.Error("it stays awake")
	}
	if !s.Lives("once more") {
		t.Error("no answer")
	}
	s.Tell("close")
	s.dead()
}

// A member may have stopped the guard before it was frozen. A sweep continues it.
func TestStoppedGuardOfAnIdleServer(t *testing.T) {
	onChannels(t, func(t *testing.T, options []string) {
		s := idleProbe(t, options, nil)
		s.hasNoHelper()
		s.guard.Signal(unix.SIGSTOP)
		s.Tell("write hello")
		s.world.wantSuccess("sweep", "--quiet")
		s.Expect("out hello")
		s.idle(1)
		s.Tell("close")
		s.dead()
	})
}

func (s *server) hasNoHelper() {
	s.world.T.Helper()
	if !pace.Eventually(escape.Patience, func() bool {
		for _, parent := range escape.Parents() {
			if parent == s.guard.PID {
				return false
			}
		}
		return true
	}) {
		s.world.T.Error("the guard's helper stays")
	}
}

// A sweep leaves it alone, and signals that end nothing reach the main process.
func TestIdleServerGetsSignals(t *testing.T) {
	onChannels(t, func(t *testing.T, options []string) {
		s := idleProbe(t, options, nil)
		s.world.wantSuccess("sweep", "--quiet")
		s.Tell("signal %d", unix.SIGUSR1)
		s.told(1)
		s.wantAsked(1, unix.SIGUSR1)
		s.idle(1)
		if !s.Lives("afterwards") {
			t.Error("no answer")
		}
	})
}

// A person's freeze stays until a person's thaw. That a message has come changes nothing.
func TestFreezeOfAnIdleServerStays(t *testing.T) {
	onChannels(t, func(t *testing.T, options []string) {
		s := idleProbe(t, options, nil)
		_, id := s.members.Main()
		s.world.wantSuccess("freeze", id)
		s.Tell("write meanwhile")
		if err := escape.AwaitWake(s.group, 1, escape.Patience); err != nil {
			t.Fatal(err)
		}
		if !s.frozenNow() {
			t.Error("thawed by a message")
		}
		s.world.wantSuccess("thaw", id)
		s.Expect("out meanwhile")
		s.idle(1)
	})
}

// The end of stdin thaws a server that a person has frozen: it reads what there is, and ends by itself.
func TestFrozenServerEnds(t *testing.T) {
	t.Parallel()
	s := startProbe(t, []string{"--eof-grace", "1h"})
	_, id := s.members.Main()
	s.world.wantSuccess("freeze", id)
	s.Tell("write meanwhile")
	s.Tell("close")
	s.Expect("out meanwhile")
	if status := s.Status(escape.Patience); status != "exit 0" {
		t.Errorf("it ended with %q", status)
	}
	s.dead()
}

// onEnds starts a probe whose stdin and stdout the test has itself.
func onEnds(t *testing.T, kind string, flags []string) (s *server, stdin, stdout *os.File) {
	t.Helper()
	in, stdin := ends(t, kind)
	stdout, out := ends(t, kind)
	if kind == "pipe" {
		if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
			t.Fatal(err)
		}
	}
	s = spawned(t, in, out, append([]string{"--idle-freeze", "5ms"}, flags...), []string{binaries.probe})
	in.Close()
	out.Close()
	t.Cleanup(func() { // no sooner: the collector of garbage would close stdin
		stdin.Close()
		stdout.Close()
	})
	return s, stdin, stdout
}

// onKinds runs a test for the kinds of ends.
func onKinds(t *testing.T, test func(t *testing.T, kind string)) {
	t.Parallel()
	for _, kind := range []string{"pipe", "socket"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// readLine fails when no line comes.
func (s *server) readLine(from *bufio.Reader, of *os.File) string {
	s.world.T.Helper()
	if from.Buffered() == 0 && !escape.PollFor(answered, unix.PollFd{Fd: int32(of.Fd()), Events: unix.POLLIN}) {
		s.world.T.Fatalf("no answer: a message was lost; frozen %v, %v; the guard: %s", s.frozenNow(),
			escape.AwaitIdle(s.group, math.MaxInt, 0), escape.Describe(s.guard.PID))
	}
	line, err := from.ReadString('\n')
	if err != nil {
		s.world.T.Fatal(err)
	}
	return line
}

// A server can have read one half of a message.
func TestIdleServerInAMessage(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		s, stdin, stdout := onEnds(t, kind, nil)
		out := bufio.NewReader(stdout)
		fmt.Fprint(stdin, "one ")
		s.idle(0)
		fmt.Fprint(stdin, "message, ")
		s.idle(1)
		fmt.Fprint(stdin, "in parts\nand another\n")
		for _, want := range []string{"one message, in parts\n", "and another\n"} {
			if got := s.readLine(out, stdout); got != want {
				t.Errorf("answer %q, want %q", got, want)
			}
		}
	})
}

// A server whose client does not read is not frozen: its write would be cut short. A note says so.
func TestFullOutputIsNotIdle(t *testing.T) {
	t.Parallel()
	s, stdin, stdout := onEnds(t, "pipe", nil)
	line := strings.Repeat("x", 3000) + "\n"
	fmt.Fprint(stdin, line, line)
	if err := escape.AwaitNote(s.group, "not idle: the client does not read its output", escape.Patience); err != nil {
		t.Fatal(err)
	}
	if s.frozenNow() {
		t.Error("frozen in a write")
	}
	out := bufio.NewReader(stdout)
	for range 2 {
		if got := s.readLine(out, stdout); got != line {
			t.Errorf("%d bytes arrived, want %d", len(got), len(line))
		}
	}
	s.idle(0)
}

// raceIdle is long enough for a server that waits for a processor to be no idle one.
const raceIdle = 40 * time.Millisecond

// racesEnv is how many messages come at random moments around a freeze.
const racesEnv = "TESTS_IDLE_RACES"

// A message that comes while the server is being frozen is answered as any other.
func TestMessageRacesAgainstFreeze(t *testing.T) {
	races := escape.Number(racesEnv, 60)
	onKinds(t, func(t *testing.T, kind string) {
		s, stdin, stdout := onEnds(t, kind, []string{"--idle-freeze", raceIdle.String()})
		out := bufio.NewReader(stdout)
		fmt.Fprintln(stdin, "ponder", (raceIdle / 8).Milliseconds()) // a message that was read is not answered at once
		for i := range races {
			if i == races/2 {
				s.idle(0) // a machine that has no time for a freeze has it now
			} else {
				time.Sleep(raceIdle + rand.N(2*raceIdle)) // a freeze comes about then
			}
			text := fmt.Sprintf("message %d\n", i)
			fmt.Fprint(stdin, text)
			if got := s.readLine(out, stdout); got != text {
				t.Fatalf("answer %q, want %q", got, text)
			}
		}
	})
}

// contextSwitches is how often the threads of a process were given a processor after they had waited.
func contextSwitches(pid int) (n int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is valid
	for _, file := range files {
		text, _ := os.ReadFile(file) // none of a thread that has ended
		_, rest, _ := strings.Cut(string(text), "\nvoluntary_ctxt_switches:")
		var one int
		_, _ = fmt.Sscan(rest, &one)
		n += one
	}
	return n
}

// Messages to a server that runs wake no other process.
func TestMessagesWakeTheServerAlone(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		s, stdin, stdout := onEnds(t, kind, []string{"--idle-freeze", "1h"})
		out := bufio.NewReader(stdout)
		const messages = 100
		woken := 0
		if !pace.Eventually(escape.Patience, func() bool { // work that the start has left for later wakes threads, too
			before := contextSwitches(s.Server.PID)
			for range messages {
				fmt.Fprintln(stdin, "message")
				s.readLine(out, stdout)
			}
			woken = contextSwitches(s.Server.PID) - before
			return woken < messages/2
		}) {
			t.Errorf("%d messages woke the launcher %d times", messages, woken)
		}
	})
}

// open is a copy of a descriptor of the main process.
func (s *server) open(number int) *os.File {
	main, _ := s.members.Main()
	pidfd, err := unix.PidfdOpen(main.PID, 0)
	if err != nil {
		s.world.T.Fatal(err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		s.world.T.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "theirs")
	s.world.T.Cleanup(func() { f.Close() })
	return f
}

// A person's freeze waits until the server can write, and says why it does not freeze: it would cut a write
// short.
func TestFreezeWaitsForRoom(t *testing.T) {
	onKinds(t, func(t *testing.T, kind string) {
		s, stdin, stdout := onEnds(t, kind, []string{"--idle-freeze", "1h"})
		line := strings.Repeat("x", 3000) + "\n"
		lines := 0
		theirs := int32(s.open(1).Fd())
		for escape.PollFor(0, unix.PollFd{Fd: theirs, Events: unix.POLLOUT}) {
			if escape.PollFor(time.Millisecond, unix.PollFd{Fd: int32(stdin.Fd()), Events: unix.POLLOUT}) {
				fmt.Fprint(stdin, line)
				lines++
			}
		}
		_, id := s.members.Main()
		o := s.world.run(s.world.mcpscope("freeze", id))
		if o.Status.ExitStatus() == 0 || !strings.Contains(o.Stderr, "the client does not read what process") || s.frozenNow() {
			t.Errorf("status %v, frozen: %v; stderr: %s", o.Status, s.frozenNow(), o.Stderr)
		}
		out := bufio.NewReader(stdout)
		for range lines {
			if got := s.readLine(out, stdout); got != line {
				t.Fatalf("%d bytes arrived, want %d", len(got), len(line))
			}
		}
		s.world.wantSuccess("freeze", id)
		if !s.frozenNow() {
			t.Error("not frozen")
		}
		s.world.wantSuccess("thaw", id)
	})
}

// The kernel counts neither recv(2) nor send(2). A server on a socket that has answered nothing by write(2) may use
// them, and be in a call.
func TestUncountedServerIsNotFrozen(t *testing.T) {
	t.Parallel()
	s := startServer(newWorld(t), channels["socketpairs"], []string{"--idle-freeze", "20ms"}, binaries.Zoo, "plain")
	_, id := s.members.Main()
	said := func() bool {
		return strings.Contains(s.world.run(s.world.mcpscope("inspect", id)).Stdout, "by write(2)")
	}
	if !pace.Eventually(escape.Patience, said) {
		t.Error("inspect does not say why it is not frozen")
	}
	if s.frozenNow() {
		t.Error("it is frozen")
	}
	s.Tell("close")
	s.dead()
}

// npx keeps its connection to the registry for as long as its server runs. The server is frozen all the same.
func TestIdleServerOfNpx(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npx"); err != nil {
		t.Skip("SKIP: there is no npx")
	}
	w := newWorld(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("package/package.json", `{"name": "mcp-probe", "version": "1.0.0", "bin": "start"}`)
	write("package/start", "#!/bin/sh\nexec "+binaries.probe+` "$@"`+"\n")
	tarball := filepath.Join(dir, "mcp-probe-1.0.0.tgz")
	if out, err := exec.Command("tar", "-C", dir, "-czf", tarball, "package").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages, err := registry.Serve(tarball)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(packages.Close)
	npx := "npx --yes --userconfig=/dev/null --no-update-notifier --cache=" + dir + "/cache --registry=" + packages.URL
	// Into npm's cache first, without a deadline: a busy disk takes its time.
	if out, err := exec.Command("sh", "-c", npx+" --package=mcp-probe true").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := write("npx", "#!/bin/sh\nexec "+npx+` mcp-probe "$@"`+"\n")
	s := launchServer(w, []string{"--group", "--socketpair"}, []string{"--idle-freeze", "20ms"}, server)
	s.Tell("write initialize") // as each client does: until it is read, npx is not frozen while it waits for a disk
	s.ready()
	s.idle(0)
	if packages.Connections() == 0 {
		t.Error("npx has no connection to its registry, so this tests nothing")
	}
	if !s.Lives("after it was frozen") {
		t.Error("no answer")
	}
	s.Tell("close")
	s.dead()
}

// A call without its answer is no idleness, however long it takes.
func TestIdleTimeoutInACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `echo up; read -r call; read -r answer <"$0"; echo "$answer"; exec cat >/dev/null`
	line := []string{binaries.mcpscope, "run", "--name", "server", "--idle-timeout", "100ms", "--", "sh", "-c", script, fifo}
	c := w.NewClient(w.Unique("client"), []string{"--group"}, line)
	c.Expect("out up")
	c.Tell("write " + strings.Repeat("call ", 20))
	c.Expect("wrote call")
	group := escape.Servers(rootsSlice(w.Site), "server", "*")[0]
	_, guard, err := escape.FindServer(rootsSlice(w.Site), group[strings.LastIndex(group, "-")+1:])
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	before := waits(t, guard)
	pace.Eventually(escape.Patience, func() bool { return waits(t, guard) > before+30 || c.Server.Ended(0) }) // for some checks
	if c.Server.Ended(0) {
		t.Fatal("it was stopped in a call")
	}
	if err := os.WriteFile(fifo, []byte("an answer that is as long as a message\n"), 0); err != nil {
		t.Fatal(err)
	}
	c.Expect("out an answer")
	if !c.Server.Ended(escape.Patience) {
		t.Error("it is not stopped after the call")
	}
}

// An idle server is stopped, also where no Go runtime has started it.
func TestLimitsOfTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	report := filepath.Join(t.TempDir(), "report")
	for _, flags := range [][]string{{"--idle-timeout", "100ms"}, {"--idle-timeout", "100ms", "--report", report}} {
		line := append([]string{"run", "--name", "server"}, flags...)
		o := w.run(w.mcpscope(append(line, "--", "sleep", "infinity")...))
		if ws := o.Status; !ws.Signaled() || ws.Signal() != unix.SIGTERM || o.Stderr != "" {
			t.Errorf("%q: status %v; stderr: %s", flags, o.Status, o.Stderr)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil || !strings.Contains(string(text), `"cause":"idle-timeout"`) {
		t.Errorf("report %s, %v", text, err)
	}
	w.clean()
}
