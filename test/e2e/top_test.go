// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// startTop starts top, or what runs it, on a terminal in the world.
func startTop(w *world, width, height int, line ...string) *tmux.Screen {
	w.T.Helper()
	if len(line) == 0 {
		line = []string{binaries.mcpscope, "top", "--interval", "100ms"}
	}
	cmd := w.Command(line...)
	group := w.Unique("terminal")
	return tmux.Start(w.T, width, height, cmd, func() error { return escape.StartIn(group, cmd) })
}

func named(name string) []string { return []string{"--backend", "cgroup", "--name", name} }

// hides waits for a screen without a text, but for its last line.
func hides(s *tmux.Screen, text string) {
	s.Until("screen without "+text, func(lines []string) bool { return !strings.Contains(strings.Join(lines[:len(lines)-1], "\n"), text) })
}

func TestTopShowsAndSorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, named("time"), binaries.Zoo, "plain")
	startServer(w, []string{"--group"}, named("browser"), binaries.probe, "--members", "2")
	line := append([]string{binaries.mcpscope, "run"}, named("index")...)
	w.NewClient(w.Unique("client"), []string{"--group"}, append(line, "--", "sh", "-c", "while :; do :; done")) // busy
	s := startTop(w, 120, 40)
	s.Shows("servers", "NAME", "CPU%", "index")
	s.Until("1 % or more for a busy server", func(lines []string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			row := strings.Fields(line)
			return len(row) > 5 && row[1] == "index" && row[5] != "-" && !strings.HasPrefix(row[5], "0.")
		})
	})
	for _, idle := range []string{"browser", "time"} { // of which neither need have used any since
		s.Shows("index", idle, "? help") // by CPU, from the start
	}
	t.Logf("\n%s", strings.Join(s.Lines()[:6], "\n"))
	for keys, order := range map[string][]string{"n": {"browser", "time"}, "a": {"time", "browser"}, "p": {"browser", "time"}} {
		s.Type(keys)
		s.Shows(order...)
		s.Type("r")
		slices.Reverse(order)
		s.Shows(order...)
		s.Type("r")
	}
	s.Type("/BRO")
	hides(s, "time")
	s.Shows("browser", "/BRO")
	s.Press("BSpace", "BSpace", "BSpace")
	s.Type("tim")
	s.Press("Enter")
	hides(s, "browser")
	s.Press("Escape")
	s.Shows("browser")
	s.Type("?")
	s.Shows("Home End: choose", "freeze", "any key: back")
	s.Type("x")
	s.Shows("browser", "? help")
	s.Type("q")
	if status := s.Status(); status != "0" {
		t.Errorf("q: %s", status)
	}
}

// The details of a server have its processes, and what it used in the last minutes.
func TestTopDetails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, named("browser"), binaries.probe, "--members", "2")
	line := append([]string{binaries.mcpscope, "run"}, named("index")...)
	w.NewClient(w.Unique("client"), []string{"--group"}, append(line, "--", "sh", "-c", "while :; do :; done # of index"))
	s := startTop(w, 200, 60)
	s.Shows("index", "browser")
	s.Type("/index") // there may be trees of other tests
	s.Press("Enter")
	s.Shows("1 with")
	s.Press("Enter")
	lines := s.Shows("index (", "running", "cgroup, by client[", "1 processes", "CPU%", "█", "memory", "while :; do :; done", "Escape back")
	t.Logf("\n%s", strings.Join(lines, "\n"))
	s.Press("Escape")
	s.Shows("NAME", "index")
	s.Press("Escape")
	s.Shows("NAME", "browser")
	// with the mouse: the first of the rows, which is chosen by one click and shown by another
	row := slices.IndexFunc(s.Lines(), func(line string) bool { return strings.Contains(line, "browser") })
	s.Click(5, row)
	s.Click(5, row)
	s.Shows("browser (", "3 processes", "CPU%", "--members 2")
	s.Press("Escape")
	s.Shows("NAME")
	head := strings.Index(s.Lines()[1], "AGE")
	s.Click(head, 1)
	s.Shows("by age")
	s.Type("q")
	s.Status()
}

func TestTopEndsServers(t *testing.T) {
	views(t, func(t *testing.T, w *world, start func([]string, ...string) *server) {
		spared, victim := start(nil, binaries.Zoo, "plain"), start(nil, binaries.Zoo, "plain")
		id, other := w.list([]*server{victim}, "ls")[0].ID, w.list([]*server{spared}, "ls")[0].ID
		s := startTop(w, 120, 40)
		s.Shows("NAME", "? help")
		s.Type("/" + id) // trees are seen in every world
		s.Press("Enter")
		s.Shows("1 with", id)
		hides(s, other)
		for _, state := range []string{"frozen", "running"} {
			s.Type("f")
			s.Shows(id + "  server  " + state)
		}
		s.Type("s")
		s.Shows("Stop server (" + id)
		s.Type("n")
		s.Shows("not stopped")
		if !victim.Lives("still there?") {
			t.Fatal("stopped without a yes")
		}
		s.Type("s")
		s.Shows("Stop server (" + id)
		s.Type("y")
		s.Shows("stopped server (" + id)
		if left := victim.members.Running(); len(left) > 0 {
			t.Errorf("they run: %q", left)
		}
		hides(s, "running")
		if !spared.Lives("still there?") {
			t.Error("another server was hit")
		}
		s.Press("C-c")
		if status := s.Status(); status != "0" {
			t.Errorf("^C: %s", status)
		}
	})
}

// Whatever is in an attribute, it must neither act on the terminal nor break a line.
func TestTopOnAnyTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := startServer(w, []string{"--group"}, named("plain"), binaries.Zoo, "plain")
	name := "日本語の名前\x1b[2J\x9b2J\u202e" + strings.Repeat("z\u0301\u0301\u0301", 200)
	if err := unix.Setxattr(filepath.Join(server.group, "payload"), "user.mcpscope.name", []byte(name), 0); err != nil {
		t.Fatal(err)
	}
	s := startTop(w, 120, 40)
	s.Shows("日本語の名前?[2J")
	s.Type("/日本")
	s.Press("Enter")
	s.Shows("1 with", "日本語の名前?[2J")
	for _, size := range [][2]int{{20, 5}, {20, 4}, {7, 2}, {200, 60}, {80, 24}} {
		s.Resize(size[0], size[1])
		wants := []string{"日"}
		switch {
		case size[1] >= 5 && size[0] >= 20:
			wants = []string{"NAME", "日", "? help"}
		case size[1] == 2:
			wants = nil
		}
		lines := s.Shows(wants...)
		for _, line := range lines {
			if wide(line) > size[0] || strings.ContainsAny(line, "\x1b\u202e") {
				t.Errorf("%v: %q", size, line)
			}
		}
		if size[1] < 4 {
			continue
		}
		s.Press("Enter") // the details too
		s.Shows("日", "Escape back"[:min(size[0]-1, 11)])
		s.Press("Escape")
		s.Until("the list", func(lines []string) bool {
			return strings.HasPrefix(lines[len(lines)-1], "? help") // what follows an escape at once belongs to it
		})
		s.Type("?")
		s.Shows("any key: back")
		s.Press("Escape")
	}
	s.Type("q")
	if status := s.Status(); status != "0" {
		t.Errorf("q: %s", status)
	}
}

// wide counts cells, in its own way.
func wide(line string) int {
	n := utf8.RuneCountInString(line) - strings.Count(line, "\u0301")
	for _, r := range line {
		if r >= 0x3000 && r < 0xa000 {
			n++
		}
	}
	return n
}

func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			t.Parallel()
			s := startTop(newWorld(t), 100, 30, "bash", "--norc", "--noprofile", "-c",
				`"$0" top --interval 100ms; echo status-$?; stty -a | grep -c ' echo '; echo END; read -r x`, binaries.mcpscope)
			s.Shows("NAME", "? help")
			if !s.Is("alternate_on") || !s.Is("mouse_any_flag") {
				t.Error("no screen of its own, or no mouse: then this test tests nothing")
			}
			pid := onlyChild(t, onlyChild(t, s.PID()))
			if err := unix.Kill(pid, sig); err != nil { // its parent is waiting for it
				t.Fatal(err)
			}
			s.Shows("status-"+map[unix.Signal]string{unix.SIGTERM: "143", unix.SIGHUP: "129", unix.SIGQUIT: "131"}[sig], "1", "END")
			if s.Is("alternate_on") || s.Is("mouse_any_flag") {
				t.Error("the terminal is not as it was")
			}
		})
	}
}

// onlyChild waits for the one child of a shell on a screen.
func onlyChild(t *testing.T, parent int) int {
	t.Helper()
	for of, by := range escape.Parents() {
		if by == parent {
			return of
		}
	}
	t.Fatalf("%d has no child", parent)
	return 0
}

func TestTopInAShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = append(cmd.Env, "PS1=PROMPT ")
	group := w.Unique("terminal")
	s := tmux.Start(t, 100, 30, cmd, func() error { return escape.StartIn(group, cmd) })
	enter := func(line string) {
		s.Type(line)
		s.Press("Enter")
	}
	enter("clear; " + binaries.mcpscope + " top --interval 100ms")
	s.Shows("NAME", "? help")
	for range 3 {
		s.Press("C-z")
		s.Shows("Stopped", "PROMPT")
		enter("clear; stty -a | grep -c ' echo '; echo LOO''KED")
		s.Shows("1", "LOOKED", "PROMPT")
		enter("fg")
		s.Shows("NAME", "? help")
	}
	s.Type("/x")
	s.Shows("/x_")
	s.Press("Enter")
	s.Type("q")
	s.Shows("PROMPT")
	enter("echo status-$?; stty -a | grep -c ' echo '")
	s.Shows("status-0", "1")
}

func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.run(w.mcpscope("top"))
	if o.status.ExitStatus() != 1 || o.stdout != "" || !strings.Contains(o.stderr, "is no terminal\nmcpscope: hint: mcpscope ls\n") {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
}
