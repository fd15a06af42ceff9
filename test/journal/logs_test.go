// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// talker says on stderr what it is told.
const talker = `echo "what it began with" >&2; echo ready; while read -r line; do echo "$line" >&2; echo done; done; printf "%s" "the last" >&2`

func TestStderrInTheJournal(t *testing.T) {
	onEach(t, func(t *testing.T, b backend) {
		name := "talker-" + b.name
		s := b.start(t, name, []string{"--stderr", "journal"}, talker)
		if e := b.events(t, name).event("started"); e.Stderr != "journal" {
			t.Errorf("%+v", e)
		}
		v := listed(t, b, name)
		f := follow(t, b.command(t, "logs", "--follow", v.ID[:6]))
		f.until("its first line", func(line string) bool { return line == "what it began with" })
		// Nobody is between the server and the journal who would have to run.
		for _, pid := range []int{v.Launcher, v.Supervisor} {
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		s.Tell("all others are stopped")
		s.Hear("done")
		f.until("a line of then", func(line string) bool { return line == "all others are stopped" })
		for _, pid := range []int{v.Supervisor, v.Launcher} {
			if err := unix.Kill(pid, unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		s.end()
		f.until("its last line", func(line string) bool { return line == "the last" })
		f.interrupt()
		if said := s.Said(); said != "" {
			t.Errorf("on the client's stderr: %s", said)
		}
		// it has ended
		for _, who := range []string{name, v.ID, v.ID[:6]} {
			want := "what it began with\nall others are stopped\nthe last\n"
			if out := b.succeed(t, "logs", who); out != want {
				t.Errorf("logs %s: %q", who, out)
			}
		}
		if out := b.succeed(t, "logs", "-n", "1", name); out != "the last\n" {
			t.Errorf("the last line: %q", out)
		}
	})
}

// A name means the newest server of it, and another server's lines are not its own.
func TestLogsOfTheNewest(t *testing.T) {
	b := backends[0] // its group has gone when run returns, so only the journal knows of it
	for _, line := range []string{"one", "two"} {
		s := b.start(t, "again", []string{"--stderr", "journal"}, "echo "+line+" >&2; "+polite)
		f := follow(t, b.command(t, "logs", "-f", "again"))
		f.until(line, func(got string) bool { return got == line })
		s.end()
		f.interrupt()
	}
	if out := b.succeed(t, "logs", "again"); out != "two\n" {
		t.Errorf("%q", out)
	}
}

func TestLogsOfOthers(t *testing.T) {
	b := backends[1]
	s := b.start(t, "inherits", nil, "echo line >&2; "+polite)
	if said := s.Said(); said != "line\n" {
		t.Errorf("the client's stderr has %q", said)
	}
	id := b.events(t, "inherits").event("started").ID
	r := output(t, b.command(t, "logs", "inherits"))
	want := fmt.Sprintf("mcpscope: cannot print logs: the stderr of inherits (%s) is its client's\n"+
		"mcpscope: hint: start it with --stderr journal, of mcpscope run or of its gateway\n", id)
	if r.status != 1 || r.out != "" || r.stderr != want {
		t.Errorf("%+v", r)
	}
	s.end()
	r = output(t, b.command(t, "logs", "nobody"))
	if r.status != 1 || r.stderr != "mcpscope: cannot print logs: there is no server \"nobody\"\n" {
		t.Errorf("%+v", r)
	}
}

// Bytes are what they were, but for a terminal.
func TestLogsOfAnyBytes(t *testing.T) {
	b := backends[1]
	long := strings.Repeat("long ", 5000)
	s := b.start(t, "bytes", []string{"--stderr", "journal"}, `printf '\033[31mred\007\n\377\376\t.\n<3>error\n`+long+`.\n' >&2; `+polite)
	f := follow(t, b.command(t, "logs", "-f", "bytes"))
	f.until("its last line", func(line string) bool { return line == long+"." })
	f.interrupt()
	s.end()
	want := "\x1b[31mred\a\n\xff\xfe\t.\nerror\n" + long + ".\n"
	if out := b.succeed(t, "logs", "bytes"); out != want {
		t.Errorf("%.200q", out)
	}
	cmd := exec.Command("script", "-qec", mcpscope+" logs bytes", "/dev/null")
	cmd.Stdin = strings.NewReader("")
	out, err := cmd.Output()
	if text := string(out); err != nil || !strings.Contains(text, "?[31mred?\r\n\ufffd\t.\r\nerror\r\n") {
		t.Errorf("on a terminal: %v: %.200q", err, out)
	}
}

// Where there is no journal a server starts all the same, with the client's stderr, and
// whoever wants to read it is told.
func TestWithoutAJournal(t *testing.T) {
	hidden := func(args string) *exec.Cmd {
		return exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run/systemd/journal && exec "+mcpscope+" "+args)
	}
	r := output(t, hidden("run -v --backend cgroup --stderr journal -- sh -c 'echo line >&2; exit 4'"))
	want := "line\nmcpscope: note: stderr is the client's: there is no systemd journal here\n"
	if r.status != 4 || r.stderr != want {
		t.Errorf("run: %+v", r)
	}
	for _, args := range []string{"events", "events --json", "logs x"} {
		r := output(t, hidden(args))
		want := "mcpscope: cannot read the journal: there is no systemd journal here\n" +
			"mcpscope: hint: it takes systemd-journald and journalctl; without: mcpscope run --report FILE\n"
		if r.status != 1 || r.out != "" || r.stderr != want {
			t.Errorf("%s: %+v", args, r)
		}
	}
	cmd := exec.Command(mcpscope, "events")
	cmd.Env = append(os.Environ(), "PATH=/nowhere")
	if r := output(t, cmd); r.status != 1 || !strings.Contains(r.stderr, "there is no systemd journal here") {
		t.Errorf("without journalctl: %+v", r)
	}
}
