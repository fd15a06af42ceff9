// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// TerminalSignals: on a terminal the main process is in the launcher's process group. A signal that a
// terminal can send to the group counts as sent by it, even if only the launcher received it; other signals
// are forwarded.
func TerminalSignals(t *testing.T, s Subject) {
	const keyInt, keyQuit = "\x03", "\x1c"
	both := func(sig unix.Signal) map[string][]unix.Signal { return only([]unix.Signal{sig}, "main", "child") }
	alone := map[unix.Signal]map[string][]unix.Signal{
		unix.SIGINT: nil, unix.SIGQUIT: nil, unix.SIGWINCH: nil, unix.SIGCONT: nil,
		unix.SIGTERM: each(unix.SIGTERM, unix.SIGCONT), unix.SIGHUP: only([]unix.Signal{unix.SIGHUP}, "main"),
		unix.SIGUSR1: only([]unix.Signal{unix.SIGUSR1}, "main"),
	}
	cases := map[string]struct {
		do   func(*Terminal)
		want map[string][]unix.Signal
	}{
		"key/SIGINT":  {func(term *Terminal) { term.Type(keyInt) }, both(unix.SIGINT)},
		"key/SIGQUIT": {func(term *Terminal) { term.Type(keyQuit) }, both(unix.SIGQUIT)},
		"window":      {func(term *Terminal) { term.Resize(50, 132) }, both(unix.SIGWINCH)},
		"hang-up":     {(*Terminal).HangUp, each(unix.SIGHUP, unix.SIGCONT)},
	}
	for sig, want := range alone {
		name := "/" + unix.SignalName(sig)
		c := cases["pid"+name]
		c.do = func(term *Terminal) { _ = term.Cmd.Process.Signal(sig) } // it runs
		c.want = want
		cases["pid"+name] = c
		if want == nil {
			c.do = func(term *Terminal) { _ = unix.Kill(-term.Cmd.Process.Pid, sig) } // it was not waited for
			c.want = both(sig)
			cases["group"+name] = c
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site := s.Site(t)
			crew := newCrew(t)
			term := startTerminal(t, site, s.contained("--term-grace", "infinity").line(crew.line(s)...))
			crew.up(func() string { return fmt.Sprintf("%q", term.All()) })
			term.Type("stay\nread\n")
			term.Expect("read\r\nread")
			c.do(term)
			crew.want(func(sig unix.Signal) { _ = term.Cmd.Process.Signal(sig) }, c.want)
			if name == "window" && !crew.AwaitSaid(escape.Patience, func(all []escape.Saying) bool {
				return slices.ContainsFunc(all, func(s escape.Saying) bool { return s.Text == "size 50 132" })
			}) {
				t.Errorf("the server does not know its size: %v", crew.Said())
			}
			if strings.HasPrefix(name, "key") {
				term.Type("alive\n")
				term.Expect("alive\r\nalive")
			}
			crew.Kill()
			if launcher, err := escape.OpenProcess(term.Cmd.Process.Pid); err != nil || !launcher.Ended(escape.Patience) {
				t.Errorf("the launcher does not return (%v)", err)
			}
		})
	}
}

// startShell starts our shell, and returns it with a function that runs a command in one way.
func startShell(t *testing.T, s Subject, w way) (term *Terminal, runs string) {
	t.Helper()
	term = startTerminal(t, s.Site(t), []string{s.Programs.Shell, "outer"})
	term.Expect("outer ready")
	return term, strings.Join(append([]string{"run"}, w.prefix...), " ") + " "
}

// KeyAtOnce: ^C ends a server that is just starting, whether or not there is a main process yet.
func KeyAtOnce(t *testing.T, s Subject) {
	const tries = 24
	site := s.Site(t)
	for range tries {
		term := startTerminal(t, site, append(s.contained().prefix, "cat"))
		time.Sleep(rand.N(4 * time.Millisecond)) // a random moment of the start, not an event
		term.Type("\x03")
		launcher, err := escape.OpenProcess(term.Cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if !launcher.Ended(escape.Patience) {
			t.Error("^C had no effect")
		}
		launcher.Close()
	}
}

// JobControl is the shell's business, with mcpscope in between as without.
func JobControl(t *testing.T, s Subject) {
	t.Run("stopped and continued", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			members := escape.NewMembers(t)
			term, runs := startShell(t, s, w)
			term.Type(runs + s.Programs.Probe + " --register " + members.Address + "\n")
			if err := members.UntilReady(escape.Patience); err != nil {
				t.Fatalf("%v; on the terminal: %q", err, term.All())
			}
			main, _ := members.Main()
			stopped := func() bool {
				state, _ := escape.StatField(main.PID, 3) // "" for none
				return state == "T"
			}
			echo := func(word string) {
				term.Type(word + "\n")
				term.Expect(word + "\r\n" + word)
			}
			echo("first")
			term.Type("\x1a")
			term.Expect(fmt.Sprint("outer stopped ", int(unix.SIGTSTP)))
			if !stopped() {
				t.Error("the shell has the terminal before the server is stopped")
			}
			term.Type("fg\n")
			echo("second")
			term.Type("\x1a")
			term.Expect(fmt.Sprint("outer stopped ", int(unix.SIGTSTP)))
			term.Type("bg\n") // it reads
			term.Expect("bg\r\nouter stopped ")
			if !pace.Eventually(escape.Patience, stopped) { // by SIGTTIN; the launcher may stop for the ^Z that came right after fg
				t.Error("the server reads in the background")
			}
			term.Type("fg\n")
			echo("third")
			term.Type("exit 7\n")
			term.Expect("outer exited 7")
		})
	})
	t.Run("ignored from the start", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			file := filepath.Join(escape.OpenDir(t), "script")
			if err := os.WriteFile(file, []byte("trap '' TSTP; kill -TSTP 0; echo goes on\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			term, runs := startShell(t, s, w)
			for range 8 {
				term.Type(runs + "sh " + file + "\n")
				term.Expect("goes on", "outer exited 0")
			}
		})
	})
	t.Run("shell in a shell", func(t *testing.T) {
		t.Parallel()
		s.eachWay(t, func(t *testing.T, w way) {
			term, runs := startShell(t, s, w)
			term.Type(runs + s.Programs.Shell + " inner\n")
			term.Expect("inner ready")
			term.Type("run cat\nfirst\n")
			term.Expect("first\r\nfirst")
			term.Type("\x1a")
			term.Expect(fmt.Sprint("inner stopped ", int(unix.SIGTSTP)))
			term.Type("fg\nsecond\n")
			term.Expect("second\r\nsecond")
			term.Type("\x03")
			term.Expect(fmt.Sprint("inner killed ", int(unix.SIGINT)))
			term.Type("exit 7\n")
			term.Expect("outer exited 7")
			term.Type(runs + "cat\nthird\n")
			term.Expect("third\r\nthird")
			term.Type("\x03")
			term.Expect(fmt.Sprint("outer killed ", int(unix.SIGINT)))
			if strings.Contains(term.All(), "outer stopped") {
				t.Error("the launcher stopped with a job of the inner shell")
			}
		})
	})
}

// FullScreen: a program that puts the terminal in order at ^Z before it stops itself does so before the shell
// has the terminal.
func FullScreen(t *testing.T, s Subject) {
	s.eachWay(t, func(t *testing.T, w way) {
		term, runs := startShell(t, s, w)
		term.Type(runs + s.Programs.Shell + " inner\n")
		term.Expect("inner ready")
		term.Type("screen\nready?\n")
		term.Expect("inner echoes ready?")
		term.Type("\x1a")
		term.Expect("inner restored", fmt.Sprint("outer stopped ", int(unix.SIGSTOP)))
		term.Type("fg\n")
		term.Expect("inner drawn")
		term.Type("exit 7\n")
		term.Expect("outer exited 7")
	})
}
