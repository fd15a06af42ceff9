// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// TerminalSignals: on a terminal the main process is in the launcher's process group. What a terminal can send
// to that counts as sent by it, also when the launcher alone has got it; anything else is passed on.
func TerminalSignals(t *testing.T, s Subject) {
	for sig, want := range map[unix.Signal]map[string][]unix.Signal{
		unix.SIGINT: only(nil), unix.SIGQUIT: only(nil), unix.SIGWINCH: only(nil), unix.SIGCONT: only(nil),
		unix.SIGTERM: each(unix.SIGTERM, unix.SIGCONT), unix.SIGHUP: each(unix.SIGHUP, unix.SIGCONT), unix.SIGUSR1: only([]unix.Signal{unix.SIGUSR1}, "main"), unix.SIGUSR2: only([]unix.Signal{unix.SIGUSR2}, "main"),
	} {
		t.Run("pid/"+unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			term, crew := startCrew(t, s)
			_ = term.Cmd.Process.Signal(sig) // it runs
			crew.want(want)
		})
	}
	for sig, want := range map[unix.Signal]map[string][]unix.Signal{
		unix.SIGINT: only([]unix.Signal{unix.SIGINT}, "main", "child"), unix.SIGQUIT: only([]unix.Signal{unix.SIGQUIT}, "main", "child"),
		unix.SIGWINCH: only([]unix.Signal{unix.SIGWINCH}, "main", "child"), unix.SIGCONT: only([]unix.Signal{unix.SIGCONT}, "main", "child"),
	} {
		t.Run("group/"+unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			term, crew := startCrew(t, s)
			if err := unix.Kill(-term.Cmd.Process.Pid, sig); err != nil { // not reaped
				t.Fatal(err)
			}
			crew.want(want)
		})
	}
	for key, sig := range map[string]unix.Signal{"\x03": unix.SIGINT, "\x1c": unix.SIGQUIT} {
		t.Run("key/"+unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			term, crew := startCrew(t, s)
			term.Type(key)
			crew.want(only([]unix.Signal{sig}, "main", "child"))
			term.Type(key) // is between it and the terminal as well
			crew.want(only([]unix.Signal{sig, sig}, "main", "child"))
			term.Type("alive\n")
			term.Expect("alive\r\nalive")
		})
	}
	t.Run("window", func(t *testing.T) {
		t.Parallel()
		term, crew := startCrew(t, s)
		term.Resize(50, 132)
		crew.want(only([]unix.Signal{unix.SIGWINCH}, "main", "child"))
		said := func(all []escape.Saying) bool {
			return slices.ContainsFunc(all, func(s escape.Saying) bool { return s.Text == "size 50 132" })
		}
		if !crew.AwaitSaid(escape.Patience, said) {
			t.Errorf("the server does not know its size: %v", crew.Said())
		}
	})
	t.Run("hang-up", func(t *testing.T) {
		t.Parallel()
		term, crew := startCrew(t, s)
		term.Type("stay\nread\n")
		term.Expect("read\r\nread")
		term.HangUp()
		crew.want(each(unix.SIGHUP, unix.SIGCONT))
	})
}

// startCrew starts a crew on a terminal, below mcpscope.
func startCrew(t *testing.T, s Subject) (*Terminal, *crew) {
	t.Helper()
	site, crew := s.Site(t), newCrew(t)
	term := startTerminal(t, site, s.contained("--term-grace", "3s").line(crew.line(s)...))
	crew.up(func() string { return fmt.Sprintf("%q", term.All()) })
	return term, crew
}

// startShell starts an interactive bash, and returns it with the text that runs a command
// in one way.
func startShell(t *testing.T, s Subject, w way) *Terminal {
	t.Helper()
	site := s.Site(t)
	term := startTerminal(t, site, []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}, fmt.Sprintf("W=%s", shellWords(w)))
	term.Expect("PROMPT ")
	return term
}

// shellWords are words that need no quotes.
func shellWords(w way) string {
	text := ""
	for _, word := range w.prefix {
		text += word + " "
	}
	return text
}

// JobControl is the shell's business, with mcpscope in between as without.
func JobControl(t *testing.T, s Subject) {
	t.Run("stopped and continued", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			term := startShell(t, s, w)
			term.Type("$W cat\n")
			term.Type("first\n")
			term.Expect("first\r\nfirst")
			term.Type("\x1a")
			term.Expect("Stopped")
			term.Expect("PROMPT ")
			term.Silent("cat", aMoment) // it stays stopped
			term.Type("read -r -a f </proc/$(jobs -p)/stat; while [ ${f[2]%)} != T ] && [ ${#f[2]} -gt 1 ]; do f=(\"${f[@]:1}\"); done; echo state-${f[2]}\n")
			term.Expect("state-T")
			term.Expect("PROMPT ")
			term.Type("fg\n")
			term.Expect("fg\r\n$W cat")
			term.Type("second\n")
			term.Expect("second\r\nsecond")
			term.Type("\x1a")
			term.Expect("Stopped")
			term.Expect("PROMPT ")
			term.Type("bg\n")
			term.Expect("cat &")
			// SIGTTIN stops it. "set -b", which tells of that when it comes, does so from bash's signal handler, and can hang there.
			term.Type("until jobs -s | grep -q .; do :; done; echo sto\"\"od\n")
			term.Expect("stood", "PROMPT ")
			term.Type("fg\n")
			term.Expect("fg\r\n", "$W cat")
			term.Type("third\n")
			term.Expect("third\r\nthird")
			term.Type("\x03")
			term.Expect("PROMPT ")
			term.Type("echo status-$?\n")
			term.Expect("status-130")
		})
	})
	t.Run("ignored from the start", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			term := startShell(t, s, w)
			term.Type("for i in 1 2 3 4 5 6 7 8; do $W sh -c 'trap \"\" TSTP; kill -TSTP 0; echo run\"\"ning-$0' $i; done; echo status-$?\n")
			for i := range 8 {
				term.Expect(fmt.Sprintf("running-%d\r\n", i+1))
			}
			term.Expect("status-0") // of a stopped one it is 148
		})
	})
	t.Run("interrupted program that goes on", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			bed.Require(t, program("node"))
			term := startShell(t, s, w)
			term.Type("$W node\n")
			term.Expect("> ")
			// What it prints shows that the loop's own watchdog listens: node loses a SIGINT that comes before, and one that
			// interrupts console.log.
			term.Type("fs.writeSync(1, 'loop' + 'ing'); for (;;);\r")
			term.Expect("looping")
			term.Type("\x03")
			term.Expect("SIGINT")
			term.Type("40 + 2\r")
			term.Expect("42")
			term.Type(".exit\r")
			term.Expect("PROMPT ")
			term.Type("echo status-$?\n")
			term.Expect("status-0")
		})
	})
	t.Run("shell in a shell", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			term := startShell(t, s, w)
			term.Type("PS1=INNER $W bash --norc --noprofile --noediting -i\n")
			term.Expect("-i\r\nINNER")
			term.Type("sh -c 'echo run\"\"ning; exec sleep 1000'\n")
			term.Expect("running")
			term.Type("\x1a")
			term.Expect("Stopped")
			term.Expect("INNER")
			term.Type("fg\n")
			term.Expect("fg\r\nsh -c")
			term.Silent("INNER", aMoment)
			term.Type("\x03")
			term.Expect("INNER")
			term.Type("exit 7\n")
			term.Expect("PROMPT ")
			term.Type("echo status-$?\n")
			term.Expect("status-7")
		})
	})
}

// FullScreen: programs that change the terminal get it back after ^Z, and the shell finds it
// as it was.
func FullScreen(t *testing.T, s Subject) {
	for _, p := range []struct {
		name, command, leave string
		drawn                []string // at the end of a screen, in this order
	}{
		{"less", "less -PEND /etc/services", "q", []string{"END\x1b[27m"}},
		{"vi", "vi -n -u NONE -N /etc/services", ":q!\r", []string{"qotd", "\x1b[?25h"}},
		{"top", "top", "q", []string{"load average", "COMMAND"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s.eachWay(t, func(t *testing.T, w way) {
				bed.Require(t, program(p.name))
				term := startShell(t, s, w)
				term.Type("$W " + p.command + "\n")
				term.Expect(p.drawn...)
				for range 3 {
					term.catches(unix.SIGTSTP, w)
					term.stop()
					term.Expect("PROMPT ")
					term.Type("fg\n")
					term.Expect(append([]string{"fg\r\n$W " + p.command}, p.drawn...)...)
				}
				term.Type(p.leave)
				term.Expect("PROMPT ")
				term.Type("echo status-$?; stty -a | grep -c ' echo '\n")
				status := 0
				if strings.Contains(term.All(), "top: write error") { // ^Z has interrupted its write, which happens bare as well
					status = 1
				}
				term.Expect(fmt.Sprintf("status-%d\r\n1", status))
			})
		})
	}
}

// catches waits until the launcher, which leads the foreground process group, catches sig. It
// lets the default action stop it, as less does, and takes the signal up again some time after SIGCONT:
// on a busy machine after the server has drawn its screen.
func (p *Terminal) catches(sig unix.Signal, w way) {
	p.t.Helper()
	if w.name == bare.name {
		return
	}
	caught := ""
	for deadline := time.Now().Add(escape.Patience); time.Now().Before(deadline); runtime.Gosched() {
		launcher := 0
		err := p.ioctl(func(fd int) (err error) {
			launcher, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
			return err
		})
		if err != nil {
			p.t.Fatal(os.NewSyscallError("TIOCGPGRP", err))
		}
		caught, _ = escape.StatField(launcher, 34) // of signals 1 to 31
		if set, _ := strconv.ParseUint(caught, 10, 64); set&(1<<(sig-1)) != 0 {
			return
		}
	}
	p.t.Fatalf("%s is not caught, but the signals of %s", unix.SignalName(sig), caught)
}

// stop presses ^Z. less loses it in the moment before it reads, bare as well.
func (p *Terminal) stop() {
	p.t.Helper()
	for range 3 {
		if p.Type("\x1a"); p.Find("Stopped", escape.Patience/3) {
			return
		}
	}
	p.t.Fatalf("not stopped by ^Z: %q", p.All())
}

// program is one that the tests start.
func program(name string) bed.Feature {
	return bed.Feature{Name: name + " in PATH", Missing: func() error {
		_, err := exec.LookPath(name)
		return err
	}}
}
