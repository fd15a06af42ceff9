// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/facts"
	"github.com/mcpscope/mcpscope/test/tmux"
)

// startTop starts top, or a command line that runs it, on a terminal in the world.
func startTop(w *world, width, height int, line ...string) *tmux.Screen {
	w.T.Helper()
	if len(line) == 0 {
		line = []string{binaries.mcpscope, "top"}
	}
	cmd := w.Command(line...)
	cmd.Env = append(cmd.Env, "PS1=PROMPT ")
	group := w.Unique("terminal")
	return tmux.Start(w.T, width, height, cmd, func() error { return escape.StartIn(group, cmd) })
}

func named(name string) []string { return []string{"--backend", "cgroup", "--name", name} }

// hides waits for a screen without a text, but for its last line.
func hides(s *tmux.Screen, text string) {
	s.Until("screen without "+text, func(lines []string) bool {
		return !strings.Contains(strings.Join(lines[:len(lines)-1], "\n"), text)
	})
}

func TestTop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spared := startServer(w, []string{"--group"}, named("time"), binaries.Zoo, "plain")
	victim := startServer(w, []string{"--group"}, named("browser"), binaries.probe, "--members", "2")
	_, id := victim.members.Main()
	s := startTop(w, 120, 40)
	s.Shows(slices.Concat([]string{"servers"}, headsOfPicture(t), []string{"q quit"})...)
	for keys, order := range map[string][]string{"n": {"browser", "time"}, "a": {"time", "browser"}, "p": {"browser", "time"}} {
		s.Type(keys)
		s.Shows(order...)
	}
	s.Type("/no server")
	s.Shows(`0 with "no server"`, "/no server") // a blank is a part of the filter
	s.Press("C-w")
	s.Shows(`0 with "no "`)
	s.Press("Escape")
	s.Shows("time")
	s.Type("/BRO")
	hides(s, "time")
	s.Press("Enter")
	s.Shows("1 with", id)
	s.Press("Enter") // the details
	s.Shows("browser (", "running", "cgroup, by client[", "3 processes", "CPU%", "memory", "probe --register", "q back")
	s.Type("?")
	s.Shows("Enter", "show details", "^Z, ^C", "q back")
	s.Type("?")
	s.Shows("browser (", "q back")
	s.Type("q") // from the details to the list
	s.Shows("NAME", "browser", "q quit")
	s.Type("?")
	s.Shows("^Z, ^C", "q back")
	s.Press("Escape")
	s.Shows("NAME", "browser", "q quit")
	s.Type("f")
	s.Shows("Freeze browser (" + id)
	s.Type("y")
	s.Shows(id + "  browser  frozen")
	s.Type("f")
	s.Shows(id + "  browser  running")
	s.Type("s")
	s.Shows("Stop browser (" + id)
	s.Type("n")
	s.Shows("not stopped")
	if !victim.Lives("still there?") {
		t.Fatal("stopped without a yes")
	}
	s.Type("s")
	s.Shows("Stop browser (" + id)
	s.Type("y")
	s.Shows("stopped browser (" + id)
	if left := victim.members.Running(); len(left) > 0 {
		t.Errorf("they run: %q", left)
	}
	s.Press("Escape")
	hides(s, "browser")
	// whatever is in an attribute, it must neither act on the terminal nor break a line
	name := "日本語の名前\x1b[2J\x9b2J\u202e" + strings.Repeat("z\u0301\u0301\u0301", 200)
	facts.Set(t, spared.group, func(f *protocol.Facts) { f.Name = name })
	s.Shows("日本語の名前?[2J")
	for _, size := range [][2]int{{20, 5}, {200, 60}} {
		s.Resize(size[0], size[1])
		for _, line := range s.Shows("NAME", "日", "q quit") {
			if wide(line) > size[0] || strings.ContainsAny(line, "\x1b\u202e") {
				t.Errorf("%v: %q", size, line)
			}
		}
	}
	if !spared.Lives("still there?") {
		t.Error("another server was hit")
	}
	s.Type("q")
	if status := s.Status(); status != "0" {
		t.Errorf("q: %s", status)
	}
}

// headsOfPicture are the heads of columns in the picture of the documents, which is as wide as it needs. The screen has
// them, too, as long as make screen was run after the last change of top.
func headsOfPicture(t *testing.T) []string {
	picture, err := os.ReadFile("../../docs/top.svg")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`font-weight="bold" xml:space="preserve">(ID .*)</text>`).FindSubmatch(picture)
	if found == nil {
		t.Fatal("the picture of top has no heads: make screen")
	}
	return strings.Fields(string(found[1]))
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

// ^Z returns to the shell, and fg to the servers as they are then. Where no shell is, top goes on.
func TestTopIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, named("time"), binaries.Zoo, "plain")
	direct := startTop(w, 80, 24)
	direct.Shows("NAME", "time", "q quit")
	direct.Press("C-z")
	direct.Shows("time", "no shell could continue top")
	direct.Type("q")
	if status := direct.Status(); status != "0" {
		t.Errorf("q: %s", status)
	}
	s := startTop(w, 80, 24, "bash", "--norc", "--noprofile", "--noediting", "-i")
	enter := func(line string) {
		s.Type(line)
		s.Press("Enter")
	}
	enter(binaries.mcpscope + " top")
	s.Shows("NAME", "time", "q quit")
	s.Press("C-z")
	s.Shows("Stopped", "PROMPT")
	if s.Is("alternate_on") {
		t.Error("the screen of top stays in front of the shell")
	}
	startServer(w, []string{"--group"}, named("browser"), binaries.Zoo, "plain")
	enter("stty -a | grep -c ' echo '; echo EN''D")
	s.Shows("1", "END")
	enter("fg")
	s.Shows("NAME", "browser", "q quit")
	if !s.Is("alternate_on") {
		t.Error("top draws on the screen of the shell")
	}
	s.Type("?")
	s.Shows("^Z, ^C", "q back")
	s.Type("qq")
	s.Shows("PROMPT")
}

// The terminal is restored when a signal ends top.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startTop(w, 100, 30, "bash", "--norc", "--noprofile", "--noediting", "-i")
	enter := func(line string) {
		s.Type(line)
		s.Press("Enter")
	}
	enter("clear; " + binaries.mcpscope + " top")
	s.Shows("NAME", "q quit")
	if !s.Is("alternate_on") {
		t.Error("no screen of its own: then this test tests nothing")
	}
	top := s.PID()
	for range 2 { // of the terminal's process, and of the shell
		parents := escape.Parents()
		for of, by := range parents {
			if by == top {
				top = of
				break
			}
		}
	}
	if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", top)); err != nil || !strings.HasPrefix(string(name), "mcpscope") {
		t.Fatalf("%d is %q, %v", top, name, err)
	}
	if err := unix.Kill(top, unix.SIGTERM); err != nil { // its parent is waiting for it
		t.Fatal(err)
	}
	s.Shows("PROMPT")
	enter("echo status-$?; stty -a | grep -c ' echo '; echo EN''D")
	s.Shows("status-0", "1", "END")
	if s.Is("alternate_on") {
		t.Error("the terminal is not as it was")
	}
}
