// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// stubborn ignores SIGTERM and has a child in a session of its own.
const stubborn = `trap "" TERM; setsid sleep 1000 & echo ready; while :; do sleep 1000; done`

// polite ends with its input, and answers each line.
const polite = `echo ready; while read -r line; do echo "$line"; done; exit 3`

func TestLifeOfAServer(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "life-" + b.name
		f := b.events(t, name)
		s := b.start(t, name, nil, stubborn)
		started := f.event("started")
		if started.Name != name || started.UID != b.user.UID || started.Backend != b.name || started.Stderr != "inherit" ||
			started.Client.PID != os.Getpid() || started.ID == "" {
			t.Errorf("%+v", started)
		}
		b.succeed(t, "freeze", name)
		f.event("frozen")
		b.succeed(t, "thaw", name)
		f.event("thawed")
		if status := s.end(); status.Signal() != unix.SIGKILL {
			t.Errorf("it ended with %v", status)
		}
		killed, ended := f.event("killed"), f.event("ended")
		if killed.KilledTotal < 2 || len(killed.Killed) != killed.KilledTotal || !strings.Contains(strings.Join(killed.Killed, "\n"), "new session") ||
			!strings.Contains(killed.Killed[0], "SIGTERM ignored") {
			t.Errorf("%+v", killed)
		}
		if ended.ID != started.ID || ended.Cause != "stdin-closed" || ended.ExitSignal != "SIGKILL" || ended.ExitStatus != nil || ended.Seconds <= 0 {
			t.Errorf("%+v", ended)
		}
		if said := s.Said(); said != "" {
			t.Errorf("run said %s", said)
		}
		f.interrupt()
	})
}

func TestQuietEnd(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "quiet-" + b.name
		s := b.start(t, name, nil, polite)
		if status := s.end(); status.ExitStatus() != 3 {
			t.Errorf("it ended with %v", status)
		}
		f := b.events(t, name)
		if e := f.event("ended"); e.ExitStatus == nil || *e.ExitStatus != 3 || e.ExitSignal != "" {
			t.Errorf("%+v", e)
		}
		f.without("killed", "out-of-memory", "note", "swept")
	})
}

// What a server was started with is nobody's business who reads the journal.
func TestNothingOfArgumentsAndEnvironment(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "discreet-" + b.name
		b.start(t, name, nil, stubborn).end()
		f := b.events(t, name)
		f.event("ended")
		s := b.start(t, name, nil, polite)
		f.event("started")
		killSupervisor(t, b, name)
		_ = s.Cmd.Wait() // 125
		f.event("ended")
		if b.name != "delegated" { // whose client has to be in one
			b.succeed(t, "run", "--name", name, "--backend", b.name, "--", "true", "secret-argument") // so short that its launcher tells of it
			f.event("ended")
		}
		out, err := exec.Command("journalctl", "--output=export", "--all", "MCPSCOPE_NAME="+name).CombinedOutput()
		if err != nil || strings.Count(string(out), "MESSAGE_ID=") < 5 {
			t.Fatalf("%v: %s", err, out)
		}
		if text := string(out); strings.Contains(text, "secret-argument") || strings.Contains(text, "secret-variable") {
			t.Errorf("a secret is in\n%s", text)
		}
	})
}

func killSupervisor(t *testing.T, b backend, name string) {
	t.Helper()
	supervisor, err := escape.OpenProcess(listed(t, b, name).Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	supervisor.Signal(unix.SIGKILL)
}

// killGuards: both are descendants that nobody has reaped.
func killGuards(launcher, supervisor int) error {
	l, err := escape.OpenProcess(launcher)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := escape.OpenProcess(supervisor)
	if err != nil {
		return err
	}
	defer s.Close()
	return escape.KillGuards(l, s)
}

func TestSweptOrphan(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		if b.name == "tree" {
			return // its members end with it
		}
		name := "orphan-" + b.name
		f := b.events(t, name)
		s := b.start(t, name, nil, stubborn)
		f.event("started") // who stands by until then would end it
		if err := killGuards(s.Cmd.Process.Pid, listed(t, b, name).Supervisor); err != nil {
			t.Fatal(err)
		}
		_ = s.Cmd.Wait() // killed
		awaitState(t, b, name, "orphan")
		if out := b.succeed(t, "sweep"); !strings.Contains(out, "ended "+name) {
			t.Errorf("sweep says %q", out)
		}
		if e := f.event("swept"); e.Name != name || e.Client.PID != os.Getpid() {
			t.Errorf("%+v", e)
		}
		f.without("ended")
	})
}

// A user without a manager gets a weaker backend, and is told so.
func TestNote(t *testing.T) {
	b := backend{"auto", host.NoLinger}
	s := b.start(t, "noted", nil, polite)
	f := b.events(t, "noted")
	if e := f.event("note"); !strings.Contains(e.Note, "not available: systemd-user") {
		t.Errorf("%+v", e)
	}
	s.end()
	if e := f.event("ended"); e.Backend != "tree" {
		t.Errorf("%+v", e)
	}
}

func TestOutOfMemory(t *testing.T) {
	bed.Require(t, bed.Controller("memory"))
	b := backend{"systemd-system", host.Root}
	f := b.events(t, "greedy")
	s := b.start(t, "greedy", nil, `echo ready; read -r line; exec tail /dev/zero`)
	unit := listed(t, b, "greedy").Unit
	if out, err := exec.Command("systemctl", "set-property", "--runtime", unit, "MemoryMax=20M", "MemorySwapMax=0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Tell("eat")
	if e := f.event("out-of-memory"); e.OOMKills < 1 {
		t.Errorf("%+v", e)
	}
	s.end()
}

// One user's events are not another's, however they are called.
func TestUsersSeeTheirOwn(t *testing.T) {
	for _, b := range backends[1:3] {
		b.start(t, "everyones", nil, polite).end()
		b.events(t, "everyones").event("ended")
	}
	root, user := backends[1], backends[2]
	if out := user.succeed(t, "events", "--json", "everyones"); strings.Contains(out, `"uid":0,`) || !strings.Contains(out, `"uid":1000,`) {
		t.Errorf("a user sees %s", out)
	}
	if out := root.succeed(t, "events", "--json", "everyones"); !strings.Contains(out, `"uid":0,`) || strings.Contains(out, `"uid":1000,`) {
		t.Errorf("root sees of its own %s", out)
	}
	if out := root.succeed(t, "events", "--json", "--all-users", "everyones"); !strings.Contains(out, `"uid":0,`) || !strings.Contains(out, `"uid":1000,`) {
		t.Errorf("root sees of all %s", out)
	}
}

// Any process of a user can write what looks like an event.
func TestHostileEvents(t *testing.T) {
	b := backends[1]
	name := "hostile"
	for _, text := range []string{"a\x1b[31mb\nc\u009b", strings.Repeat("x", 200_000), "\xff\xfe", ""} {
		fields := "MESSAGE_ID=c3c54b04cd8149ca85498690168c08b9\nMCPSCOPE_EVENT=started\nMCPSCOPE_ID=abc\nMCPSCOPE_NAME=" + name + "\nMCPSCOPE_CLIENT_PID=99999999999999999999\n"
		fields += "MCPSCOPE_BACKEND=" + strings.ReplaceAll(text, "\n", "\nMCPSCOPE_BACKEND=") + "\n"
		cmd := exec.Command("logger", "--journald")
		cmd.Stdin = strings.NewReader(fields)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	f := b.events(t, name)
	for range 4 {
		f.event("started")
	}
	out := b.succeed(t, "events", name)
	if n := len(lines(out)); n != 4 || strings.ContainsAny(out, "\x1b\u009b\r") {
		t.Errorf("%d lines: %.500q", n, out)
	}
}

func TestSinceAndItsMistakes(t *testing.T) {
	b := backends[1]
	b.start(t, "since", nil, polite).end()
	b.events(t, "since").event("ended")
	if out := b.succeed(t, "events", "--since", "1h", "since"); len(lines(out)) != 2 {
		t.Errorf("of the last hour: %s", out)
	}
	if out := b.succeed(t, "events", "--since", "2100-01-01", "since"); out != "" {
		t.Errorf("of the future: %s", out)
	}
	r := output(t, b.command(t, "events", "--since", "whenever"))
	if r.status != 1 || r.out != "" || !strings.HasPrefix(r.stderr, "mcpscope: cannot read the journal: journalctl: Failed to parse timestamp") {
		t.Errorf("%+v", r)
	}
}

// Whoever follows ends with whoever reads it, although nothing happens.
func TestFollowerEndsWithItsReader(t *testing.T) {
	b := backends[1]
	s := b.start(t, "reader", []string{"--stderr", "journal"}, `echo line >&2; `+polite)
	for _, args := range [][]string{{"events", "--follow", "--since", "1h", "reader"}, {"logs", "-f", "reader"}} {
		cmd := b.command(t, args...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close() // it has it
		if _, err := r.Read(make([]byte, 1)); err != nil {
			t.Error(err)
		}
		_ = r.Close()
		p, err := escape.OpenProcess(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if !p.Ended(patience) {
			t.Errorf("%q goes on", args)
			_ = cmd.Process.Kill() // it lives
		}
		p.Close()
		if err := cmd.Wait(); fmt.Sprint(err) != "signal: broken pipe" {
			t.Errorf("%q: %v", args, err)
		}
	}
	s.end()
}

// A gateway that has had no server for a while is told of once, in the journal and nowhere else; doctor and ls
// say it as well.
func TestQuietGateway(t *testing.T) {
	if !escape.Full() {
		t.Skip("make test-full: it takes half a minute")
	}
	b := backend{"systemd-user", host.Tester}
	f := b.events(t, "sleep")
	cmd := b.command(t, "gateway", "--backend", b.name, "--", "sleep", "1000")
	stderr, err := escape.OpenMemory("stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	list := func() string {
		out, _ := b.command(t, "ls", "--gateways").Output() // none yet
		return string(out)
	}
	for deadline := time.Now().Add(2 * patience); !strings.Contains(list(), "no server was found so far"); escape.PollFor(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("ls --gateways says %s", list())
		}
	}
	if note := f.event("note"); note.Name != "sleep" || !strings.Contains(note.Note, "no MCP server was found below it") || note.Client.PID != cmd.Process.Pid {
		t.Errorf("%+v", note)
	}
	if out, _ := b.command(t, "doctor").Output(); !strings.Contains(string(out), "has had no MCP server") { // its status is about backends
		t.Errorf("doctor says %s", out)
	}
	if said := escape.Contents(stderr); said != "" {
		t.Errorf("the gateway's stderr has %q", said)
	}
	f.interrupt()
}
