// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// Servers: one that ignores SIGTERM and has a child in a session of its own; one that ends with its input,
// and answers each line; and one that writes its input to stderr.
const (
	stubborn = `trap "" TERM; setsid sleep infinity & echo ready; while :; do sleep infinity; done`
	polite   = `echo ready; while read -r line; do echo "$line"; done; exit 3`
	talker   = `echo "what it began with" >&2; echo ready; while read -r line; do echo "$line" >&2; echo done; done; printf "%s" "the last" >&2`
)

// unique makes a name that no earlier run of a test has in the journal.
func unique(name string) string {
	return name + "-" + strings.ToLower(rand.Text()[:6])
}

// The life of a server is in the journal, without its arguments and its environment; and its events can be
// asked for after its end, by its name.
func TestLifeOfAServer(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
			name := unique("life-" + b.name)
			f := b.events(t, name)
			s := b.start(t, name, nil, stubborn)
			started := f.event("started")
			if started.Name != name || started.UID != strconv.Itoa(b.user.UID) || started.Backend != b.name || started.Stderr != "inherit" ||
				started.ClientPID != strconv.Itoa(os.Getpid()) || started.ID == "" {
				t.Errorf("%+v", started)
			}
			again := func(verb, want string) {
				if text := b.succeed(t, verb, name); !strings.HasSuffix(text, ") "+want+"\n") {
					t.Errorf("%s: %s, want %s", verb, text, want)
				}
			}
			again("thaw", "is not frozen")
			b.succeed(t, "freeze", name)
			f.event("frozen")
			again("freeze", "is frozen already")
			b.succeed(t, "thaw", name)
			f.event("thawed")
			again("thaw", "is not frozen")
			s.end()
			ended := f.event("ended")
			if total, err := strconv.Atoi(ended.KilledTotal); err != nil || total < 2 || !strings.Contains(ended.Message, "(sleep)") || ended.Priority != "5" {
				t.Errorf("%+v", ended)
			}
			if ended.ID != started.ID || ended.Cause != "stdin-closed" || ended.ExitSignal != "SIGKILL" {
				t.Errorf("%+v", ended)
			}
			f.interrupt()
			out, err := exec.Command("journalctl", "--output=export", "--all", "MCPSCOPE_NAME="+name).CombinedOutput()
			if text := string(out); err != nil || strings.Count(text, "MESSAGE_ID=") < 4 || strings.Contains(text, "secret-") {
				t.Errorf("%v: a secret is in, or there is too little in\n%s", err, text)
			}
			gone := output(t, b.command(t, "inspect", name))
			if gone.status != 1 || !strings.Contains(gone.stderr, "mcpscope: hint: mcpscope logs "+name) ||
				!strings.Contains(gone.stderr, name+" ("+started.ID+") ended after ") {
				t.Errorf("inspect: %+v", gone)
			}
			for _, which := range []string{name, started.ID} {
				if text := b.succeed(t, "logs", which); !strings.Contains(text, name+" ("+started.ID+") ended after ") ||
					!strings.Contains(text, ": its client closed stdin") || !strings.Contains(text, ") frozen\n") {
					t.Errorf("logs %s: %s", which, text)
				}
			}
		})
	}
}

// A server that has ended before its start was settled has both events, though its launcher does not wait for
// them.
func TestShortLife(t *testing.T) {
	for status := range 3 {
		name := unique(fmt.Sprint("short-", status))
		f := cgroup.events(t, name)
		r := output(t, cgroup.command(t, "run", "--name", name, "--backend", "cgroup", "--", "sh", "-c", fmt.Sprint("exit ", status)))
		if r.status != status || r.stderr != "" || r.out != "" {
			t.Errorf("%+v", r)
		}
		started := f.event("started")
		ended := f.event("ended")
		if ended.ID != started.ID || ended.Cause != "main-exited" || ended.ExitStatus != strconv.Itoa(status) {
			t.Errorf("%+v", ended)
		}
	}
}

// A server that was not started is in the journal with the reason, and logs finds it by its name: many clients drop the
// stderr of a server. Arguments are not there.
func TestFailedStarts(t *testing.T) {
	notRunnable := filepath.Join(t.TempDir(), "not-runnable")
	if err := os.WriteFile(notRunnable, []byte("\x7fELF no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	limited := []string{"--set", "hugetlb.4K.max=0"}
	for kind, c := range map[string]struct {
		flags   []string
		command string
		want    string
	}{
		"command not found": {nil, "/no/such/command", `was not started: cannot run "/no/such/command": no such file or directory`},
		"no program":        {nil, notRunnable, "was not started: cannot run "},
		"impossible limit":  {limited, "true", "was not started: "},
		"too little memory": {[]string{"--min-free", "900T"}, "true", "was not started: "},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			name := unique("failed-" + strings.ReplaceAll(kind, " ", "-"))
			f := user.events(t, name)
			args := append([]string{"run", "--name", name}, c.flags...)
			r := output(t, user.command(t, append(args, "--", c.command, "secret-argument")...))
			if r.status < 125 {
				t.Errorf("%+v", r)
			}
			failed := f.event("failed")
			if failed.Priority != "4" || failed.ID == "" || failed.ClientPID == "" || !strings.Contains(failed.Message, c.want) {
				t.Errorf("%+v", failed)
			}
			if text := user.succeed(t, "logs", name); !strings.Contains(text, name+" ("+failed.ID+") was not started: ") {
				t.Errorf("logs: %s", text)
			}
			listed := user.succeed(t, "ls", "--all", "--format", "{{.ID}} {{.Cause}}")
			escape.Contains(t, listed, failed.ID+" not-started\n")
			out, err := exec.Command("journalctl", "--output=export", "--all", "MCPSCOPE_NAME="+name).CombinedOutput()
			if text := string(out); err != nil || strings.Count(text, "MESSAGE_ID=") != 1 || strings.Contains(text, "secret-") {
				t.Errorf("%v: a secret is in, or not one event is in\n%s", err, text)
			}
		})
	}
}

// Processes that a server leaves are named where people look, and its end is counted by the cause.
func TestLeftOversAreNamed(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
			name := unique("leaver-" + b.name)
			before := b.ends(t)
			f := b.events(t, name)
			s := b.start(t, name, nil, `setsid sleep 1000 & until grep -q sleep /proc/$!/comm; do :; done; echo ready; read -r line`)
			s.Tell("exit")
			ended := f.event("ended")
			const want = ": it exited with status 0; 1 left-over process stopped: sleep"
			if !strings.HasSuffix(ended.Message, want) || ended.Priority != "5" {
				t.Errorf("%+v", ended)
			}
			_ = s.Cmd.Wait() // it has ended
			if after := b.ends(t); after < before+1 {
				t.Errorf("%d servers have exited by themselves, and %d before", after, before)
			}
		})
	}
}

// What is kept has an event of its server, and the end names it with the id that stop takes.
func TestKeptIsNamed(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
			name := unique("keeper-" + b.name)
			f := b.events(t, name)
			daemon := `setsid sh -c 'sleep 1000 </dev/null >/dev/null 2>&1 &'; echo ready; read -r line`
			s := b.start(t, name, []string{"--keep", "slee?"}, daemon)
			s.Tell("exit")
			if kept := f.event("kept"); !strings.Contains(kept.Message, "left sleep [") {
				t.Errorf("%+v", kept)
			}
			ended := f.event("ended")
			_, id, found := strings.Cut(ended.Message, "; kept: sleep (")
			if !found {
				t.Fatalf("%+v", ended)
			}
			_ = s.Cmd.Wait() // it has ended
			id = strings.TrimSuffix(id, ")")
			for line := range strings.Lines(b.succeed(t, "logs", id)) {
				if !strings.Contains(line, name) {
					t.Errorf("logs of what is kept has a line that is not its server's: %s", line)
				}
			}
			b.succeed(t, "stop", id)
		})
	}
}

// ends is the metric of servers whose main process exited.
func (b backend) ends(t *testing.T) (count int) {
	t.Helper()
	text := b.succeed(t, "metrics")
	const name = `mcpscope_server_ends_total{cause="main-exited"} `
	_, rest, found := strings.Cut(text, name)
	if !found || !strings.Contains(text, "mcpscope_journal_readable 1.0\n") {
		t.Fatalf("no %s: %s", name, text)
	}
	if _, err := fmt.Sscan(rest, &count); err != nil {
		t.Fatal(err)
	}
	return count
}

// ls --all lists servers that have ended, beside those that run. Users see their own.
func TestLsOfEndedServers(t *testing.T) {
	for _, b := range []backend{system, user} {
		b.start(t, "past", nil, polite).end()
		b.events(t, "past").event("ended")
	}
	running := user.start(t, "present", nil, polite)
	const format = "{{.Name}} {{.State}} of {{.UID}}{{if .Started}}{{if .Ended}}, {{.Ended.After .Started}}, cause{{.Cause}}{{end}}{{end}}"
	listOf := func(b backend, flags ...string) string {
		return b.succeed(t, append([]string{"ls", "--format", format}, flags...)...)
	}
	ofUser := listOf(user, "--all")
	escape.Contains(t, ofUser, "past ended of 1000, true, cause", "present running of 1000\n")
	if strings.Contains(ofUser, "past ended of 0,") || strings.Contains(ofUser, "cause\n") {
		t.Errorf("a user sees servers of root, or an end without a cause:\n%s", ofUser)
	}
	if out := listOf(user); strings.Contains(out, "past") {
		t.Errorf("without --all:\n%s", out)
	}
	ofRoot := listOf(system, "--all")
	escape.Contains(t, ofRoot, "past ended of 0, true, cause")
	if strings.Contains(ofRoot, "of 1000") {
		t.Errorf("root, without --all-users, sees servers of a user:\n%s", ofRoot)
	}
	ofAll := listOf(system, "--all", "--all-users")
	escape.Contains(t, ofAll, "past ended of 0,", "past ended of 1000,", "present running of 1000\n")
	if out := listOf(user, "--all", "--client", "no-such-client"); out != "" {
		t.Errorf("of no client:\n%s", out)
	}
	table := user.succeed(t, "ls", "--all", "--sort", "-name")
	escape.Contains(t, table, "ENDED", "CAUSE", "past ", " ended ", " ago ")
	if strings.Index(table, "present") > strings.Index(table, "past") {
		t.Errorf("not sorted by name:\n%s", table)
	}
	running.end()
}

// An orphan that root has swept is in the list of its own user, with its lifetime.
func TestLsOfSweptServers(t *testing.T) {
	s := user.start(t, "swept", nil, stubborn)
	id := strings.TrimSpace(user.succeed(t, "ls", "--format", "{{if eq .Name \"swept\"}}{{.ID}}{{end}}"))
	_, guard, err := escape.FindServer(user.user.Slice(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	launcher, err := escape.OpenProcess(s.Cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer launcher.Close()
	if err := escape.KillTogether(guard, launcher); err != nil {
		t.Fatal(err)
	}
	_ = s.Cmd.Wait() // it was killed
	system.succeed(t, "sweep", "--all-users", "--quiet")
	system.events(t, "swept").event("swept")
	const format = "{{.Name}} {{.UID}} {{.Backend}} {{.Cause}}{{if .Started}} lived {{.Ended.After .Started}}{{end}}"
	const want = "swept 1000 systemd-user swept lived true\n"
	if out := system.succeed(t, "ls", "--format", format, "--all", "--all-users"); !strings.Contains(out, want) {
		t.Errorf("root, of all users:\n%s", out)
	}
	if out := system.succeed(t, "ls", "--format", format, "--all"); strings.Contains(out, "swept 1000") {
		t.Errorf("root's own:\n%s", out)
	}
}

// A stop kills a server whose launcher and guard do not act. They live, and the journal does not say otherwise.
func TestStopWithoutLauncherAndGuard(t *testing.T) {
	for _, b := range []backend{system, user} {
		s := b.start(t, "halted", nil, stubborn)
		id := strings.TrimSpace(b.succeed(t, "ls", "--format", "{{if eq .Name \"halted\"}}{{.ID}}{{end}}"))
		group, guard, err := escape.FindServer(b.user.Slice(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Close()
		escape.AwaitSettled(guard)
		if err := s.Cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		guards := filepath.Join(group, "guards")
		isFrozen := func(events string) bool { return strings.Contains(events, "frozen 1") }
		if err := errors.Join(bed.Write(guards+"/cgroup.freeze", "1"),
			escape.AwaitText(guards+"/cgroup.events", escape.Patience, isFrozen)); err != nil {
			t.Fatal(err)
		}
		b.succeed(t, "stop", "--grace", "0s", id)
		e := b.events(t, "halted").event("swept")
		if !strings.Contains(e.Message, "request to stop") || strings.Contains(e.Message, "guard") {
			t.Errorf("%s: the journal has %q", b.name, e.Message)
		}
		if err := s.Cmd.Process.Signal(unix.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
		_ = s.Wait() // the journal shows how it ends
	}
}

// doctor starts servers to see what works. A user who looks for the own ones does not find those, not even with --all.
func TestServersOfDoctor(t *testing.T) {
	for _, b := range []backend{system, user} {
		b.start(t, "before-doctor", nil, polite).end()
		output(t, b.command(t, "doctor", "--selftest")) // its status says whether all is well here
		b.start(t, "after-doctor", nil, polite).end()
		b.events(t, "after-doctor").event("ended")
		_, since, found := strings.Cut(b.succeed(t, "logs"), "before-doctor (")
		_, since, _ = strings.Cut(since, "\n") // whole lines
		if !found {
			t.Errorf("%s: no server before doctor", b.name)
		}
		for line := range strings.Lines(since) {
			if !strings.Contains(line, "after-doctor (") && !strings.Contains(line, "before-doctor (") {
				t.Errorf("%s: %s", b.name, line)
			}
		}
	}
}

// The freeze of an idle server is an event, too.
func TestIdleServer(t *testing.T) {
	f := cgroup.events(t, "quiet")
	s := cgroup.start(t, "quiet", []string{"--idle-freeze", "50ms"}, polite)
	if frozen := f.event("frozen"); !strings.HasSuffix(frozen.Message, " frozen: idle until its client writes") {
		t.Errorf("%+v", frozen)
	}
	s.end()
	f.event("ended")
}

func TestOutOfMemory(t *testing.T) {
	bed.Require(t, bed.Controller("memory"))
	f := system.events(t, "greedy")
	s := system.start(t, "greedy", nil, `echo ready; read -r line; exec tail /dev/zero`)
	unit := listed(t, system, "greedy").Unit
	if out, err := exec.Command("systemctl", "set-property", "--runtime", unit, "MemoryMax=20M", "MemorySwapMax=0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Tell("eat")
	if e := f.event("ended"); e.OOMKills == "" || e.OOMKills == "0" || e.Priority != "4" {
		t.Errorf("%+v", e)
	}
	_ = s.Cmd.Wait() // it was killed
}

// A gateway's server whose limit is its own has no status for mcpscope. The kernel says why it ended.
func TestOutOfMemoryBelowAGateway(t *testing.T) {
	bed.Require(t, bed.Controller("memory"))
	f := system.events(t, "hungry")
	program := filepath.Join(t.TempDir(), "hungry")
	if err := escape.WriteProgram(program, "#!/bin/sh\nsetsid sleep 1000 &\nread -r line\ntail /dev/zero\n"); err != nil {
		t.Fatal(err)
	}
	const line = `mkfifo "$0.in"; "$0" <"$0.in" | cat & exec 3>"$0.in"; echo eat >&3; wait`
	out := output(t, system.command(t, "gateway", "--match", program, "--memory-max", "20M", "--", "sh", "-c", line, program))
	if out.status != 0 {
		t.Errorf("the gateway: %+v", out)
	}
	if e := f.event("ended"); e.Cause != "out-of-memory" || e.OOMKills == "" || e.OOMKills == "0" {
		t.Errorf("%+v", e)
	}
}

// A gateway's server without its limit is contained: that is an event of another kind.
func TestNoteOfAGateway(t *testing.T) {
	f := system.events(t, "")
	program := filepath.Join(t.TempDir(), "unlimited")
	if err := escape.WriteProgram(program, "#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	flags := []string{"gateway", "--backend", "tree", "--match", program, "--memory-max", "20M"}
	out := output(t, system.command(t, append(flags, "--", "sh", "-c", `"$0" | cat`, program)...))
	if out.status != 0 {
		t.Errorf("the gateway: %+v", out)
	}
	const note = ": servers run without a limit: "
	line := f.until(note, func(line string) bool { return strings.Contains(line, note) })
	if e := eventIn(t, line); e.Event != "note" {
		t.Errorf("%+v", e)
	}
}

// One user's events are not another's, however they are called.
func TestUsersSeeTheirOwn(t *testing.T) {
	for _, b := range []backend{system, user} {
		b.start(t, "everyones", nil, polite).end()
		b.events(t, "everyones").event("ended")
	}
	for _, c := range []struct {
		b          backend
		args       []string
		root, user bool
	}{{user, nil, false, true}, {system, nil, true, false}, {system, []string{"--all-users"}, true, true}} {
		out := c.b.succeed(t, append([]string{"logs", "--json"}, c.args...)...)
		ofRoot := false
		ofUser := false
		for line := range strings.Lines(out) {
			if e := eventIn(t, line); e.Name == "everyones" {
				ofRoot = ofRoot || e.UID == "0"
				ofUser = ofUser || e.UID == "1000"
			}
		}
		if ofRoot != c.root || ofUser != c.user {
			t.Errorf("%s with %q sees %s", c.b.user.Name, c.args, out)
		}
	}
}

// With --stderr journal no process is between the server and the journal.
func TestStderrInTheJournal(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
			name := unique("talker-" + b.name)
			s := b.start(t, name, []string{"--stderr", "journal"}, talker)
			written := func() bool { return strings.Contains(b.succeed(t, "logs", name), ": what it began with\n") }
			if !pace.Eventually(escape.Patience, written) { // a journalctl that begins at that moment can miss the line
				t.Fatal("what it began with is not in the journal")
			}
			f := follow(t, b.command(t, "logs", "--follow", name))
			f.line("what it began with")
			v := listed(t, b, name)
			for _, pid := range []int{v.Launcher, v.Guard} {
				if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			s.Tell("all others are stopped")
			s.Hear("done")
			f.line("all others are stopped")
			for _, pid := range []int{v.Guard, v.Launcher} {
				if err := unix.Kill(pid, unix.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			s.end()
			f.line("the last")
			f.interrupt()
			out := b.succeed(t, "logs", name)
			escape.Contains(t, out, ": what it began with\n", ": all others are stopped\n", ": the last\n")
			all := strings.SplitAfter(strings.TrimSuffix(out, "\n"), "\n")
			if last := b.succeed(t, "logs", "-n", "1", name); last != all[len(all)-1]+"\n" {
				t.Errorf("the last line of %q: %q", all, last)
			}
		})
	}
}

// A name that no server ever had is an error; so is an id that no server was started with.
func TestLogsOfNobody(t *testing.T) {
	note := exec.Command("logger", "--journald")
	note.Stdin = strings.NewReader("MESSAGE=frozen\nMESSAGE_ID=c4da185547cd46349f526b0af5700a60\nMCPSCOPE_EVENT=frozen\nMCPSCOPE_ID=gateway\nMCPSCOPE_NAME=hermes\n")
	if out, err := note.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	system.events(t, "hermes").event("frozen")
	if r := output(t, system.command(t, "logs", "gateway")); r.status != 1 || !strings.Contains(r.stderr, `there is no server "gateway"`) {
		t.Errorf("%+v", r)
	}
	r := output(t, system.command(t, "logs", "nobody", "--since", "tomorrow"))
	if r.status != 1 || r.stderr != "mcpscope: cannot print logs: there is no server \"nobody\"\n" {
		t.Errorf("%+v", r)
	}
	system.start(t, "misspelt", nil, polite).end()
	system.events(t, "misspelt").event("ended")
	r = output(t, system.command(t, "logs", "mispelt"))
	if want := "mcpscope: hint: did you mean misspelt?\n"; r.status != 1 || !strings.HasSuffix(r.stderr, want) {
		t.Errorf("%+v, want %s", r, want)
	}
}

// Where there is no journal a server starts all the same, with the client's stderr, and logs reports that.
func TestWithoutAJournal(t *testing.T) {
	hidden := func(args string) result {
		return output(t, exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run/systemd/journal && exec "+mcpscope+" "+args))
	}
	r := hidden("run -v --backend cgroup --stderr journal -- sh -c 'echo line >&2; exit 4'")
	const want = "line\nmcpscope: note: stderr is the client's: there is no systemd journal here\n" +
		"mcpscope: note: ended after "
	if r.status != 4 || !strings.HasPrefix(r.stderr, want) || strings.Count(r.stderr, "\n") != 3 {
		t.Errorf("run: %+v", r)
	}
	r = hidden("logs x")
	const noJournal = "mcpscope: cannot print logs: there is no systemd journal here\n"
	if r.status != 1 || !strings.HasPrefix(r.stderr, noJournal) {
		t.Errorf("logs: %+v", r)
	}
}

// A journald that is stopped, and whose socket takes nothing any more, keeps no command from its end: each
// returns while it is stopped.
func TestHangingJournalDelaysNothing(t *testing.T) {
	journald := stopJournald(t)
	fill(t)
	for range 3 {
		if r := output(t, cgroup.command(t, "run", "--backend", "cgroup", "--", "true")); r.status != 0 || r.stderr != "" {
			t.Errorf("%+v", r)
		}
	}
	s := cgroup.start(t, "hanging", []string{"--stderr", "journal"}, stubborn) // it has to be killed
	cgroup.succeed(t, "freeze", "hanging")
	cgroup.succeed(t, "thaw", "hanging")
	s.end()
	if state, err := escape.StatField(journald.PID, 3); state != "T" {
		t.Errorf("journald is in state %q (%v): this tests nothing", state, err)
	}
}

// stopJournald stops it until the end of the test.
func stopJournald(t *testing.T) *escape.Process {
	t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "--property=MainPID", "systemd-journald.service").Output()
	pid, numberErr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err = errors.Join(err, numberErr); err != nil {
		t.Fatal(err)
	}
	p, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(unix.SIGCONT)
		p.Close()
		// until it has read what waits, it loses what other tests send
		if out, err := exec.Command("journalctl", "--sync").CombinedOutput(); err != nil {
			t.Errorf("journalctl --sync: %v: %s", err, out)
		}
	})
	p.Signal(unix.SIGSTOP)
	return p
}

// fill leaves no room for a datagram. Each socket sends one: the buffer of one that has sent much is full
// before the journal is.
func fill(t *testing.T) {
	t.Helper()
	for err := error(nil); !errors.Is(err, unix.EAGAIN); {
		fd, openErr := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if openErr != nil {
			t.Fatal(openErr)
		}
		err = unix.Sendto(fd, []byte("MESSAGE=x\n"), 0, &unix.SockaddrUnix{Name: "/run/systemd/journal/socket"})
		unix.Close(fd)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			t.Fatal(fmt.Errorf("fill the journal: %w", err))
		}
	}
}
