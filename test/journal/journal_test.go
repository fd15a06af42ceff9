// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// Servers: one that ignores SIGTERM and has a child in a session of its own; one that ends with its input, and answers each
// line; and one that says on stderr what it is told.
const (
	stubborn = `trap "" TERM; setsid sleep infinity & echo ready; while :; do sleep infinity; done`
	polite   = `echo ready; while read -r line; do echo "$line"; done; exit 3`
	talker   = `echo "what it began with" >&2; echo ready; while read -r line; do echo "$line" >&2; echo done; done; printf "%s" "the last" >&2`
)

// The life of a server is in the journal, without a word of its arguments and its environment; and what happened to it can be
// asked for after its end, by its name.
func TestLifeOfAServer(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
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
			s.end()
			killed, ended := f.event("killed"), f.event("ended")
			if killed.KilledTotal < 2 || !strings.Contains(strings.Join(killed.Killed, "\n"), "new session") {
				t.Errorf("%+v", killed)
			}
			if ended.ID != started.ID || ended.Cause != "stdin-closed" || ended.ExitSignal != "SIGKILL" {
				t.Errorf("%+v", ended)
			}
			f.interrupt()
			out, err := exec.Command("journalctl", "--output=export", "--all", "MCPSCOPE_NAME="+name).CombinedOutput()
			if text := string(out); err != nil || strings.Count(text, "MESSAGE_ID=") < 5 || strings.Contains(text, "secret-") {
				t.Errorf("%v: a secret is in, or there is too little in\n%s", err, text)
			}
			if text := b.succeed(t, "inspect", name); !strings.Contains(text, "stdin-closed") || !strings.Contains(text, "SIGKILL") {
				t.Errorf("inspect says %s", text)
			}
			if text := b.succeed(t, "ls", "--ended"); !strings.Contains(text, started.ID) || !strings.HasPrefix(text, "ID ") {
				t.Errorf("ls --ended says %s", text)
			}
		})
	}
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
	if e := f.event("out-of-memory"); e.OOMKills < 1 {
		t.Errorf("%+v", e)
	}
	_ = s.Cmd.Wait() // it was killed
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
		out := c.b.succeed(t, append([]string{"events", "--json", "everyones"}, c.args...)...)
		if strings.Contains(out, `"uid":0,`) != c.root || strings.Contains(out, `"uid":1000,`) != c.user {
			t.Errorf("%s with %q sees %s", c.b.user.Name, c.args, out)
		}
	}
}

// With --stderr journal nobody is between the server and the journal who would have to run.
func TestStderrInTheJournal(t *testing.T) {
	for _, b := range []backend{cgroup, user} {
		t.Run(b.name, func(t *testing.T) {
			name := "talker-" + b.name
			s := b.start(t, name, []string{"--stderr", "journal"}, talker)
			f := follow(t, b.command(t, "logs", "--follow", name))
			f.line("what it began with")
			v := listed(t, b, name)
			for _, pid := range []int{v.Launcher, v.Supervisor} {
				if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			}
			s.Tell("all others are stopped")
			s.Hear("done")
			f.line("all others are stopped")
			for _, pid := range []int{v.Supervisor, v.Launcher} {
				if err := unix.Kill(pid, unix.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			s.end()
			f.line("the last")
			f.interrupt()
			if out := b.succeed(t, "logs", name); out != "what it began with\nall others are stopped\nthe last\n" {
				t.Errorf("logs: %q", out)
			}
			if out := b.succeed(t, "logs", "-n", "1", name); out != "the last\n" {
				t.Errorf("the last line: %q", out)
			}
		})
	}
}

func TestLogsOfOthers(t *testing.T) {
	s := system.start(t, "inherits", nil, polite)
	r := output(t, system.command(t, "logs", "inherits"))
	if r.status != 1 || r.out != "" || !strings.Contains(r.stderr, ") is its client's\nmcpscope: hint: start it with --stderr journal") {
		t.Errorf("%+v", r)
	}
	s.end()
	if r = output(t, system.command(t, "logs", "nobody")); r.status != 1 || r.stderr != "mcpscope: cannot print logs: there is no server \"nobody\"\n" {
		t.Errorf("%+v", r)
	}
}

// Where there is no journal a server starts all the same, with the client's stderr, and whoever wants to read it is told.
func TestWithoutAJournal(t *testing.T) {
	hidden := func(args string) result {
		return output(t, exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run/systemd/journal && exec "+mcpscope+" "+args))
	}
	r := hidden("run -v --backend cgroup --stderr journal -- sh -c 'echo line >&2; exit 4'")
	if r.status != 4 || r.stderr != "line\nmcpscope: note: stderr is the client's: there is no systemd journal here\n" {
		t.Errorf("run: %+v", r)
	}
	if r = hidden("logs x"); r.status != 1 || !strings.HasPrefix(r.stderr, "mcpscope: cannot read the journal: there is no systemd journal here\n") {
		t.Errorf("logs: %+v", r)
	}
}

// A journald that is stopped, and whose socket takes nothing any more, keeps no command from its end: each returns while it is
// stopped.
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

// fill leaves no room for a datagram. Each socket sends one: the buffer of one that has sent much is full before the journal is.
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
