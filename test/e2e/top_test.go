package e2e

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/transparent"
)

// What top writes around its frames.
const (
	entered = "\x1b[?1049h"
	left    = "\x1b[?1049l"
)

// topScreen is top on a terminal.
type topScreen struct {
	*transparent.Terminal
	t *testing.T
}

// startTop starts top, or what runs it, on a terminal in the world.
func startTop(w *world, line ...string) *topScreen {
	w.T.Helper()
	if len(line) == 0 {
		line = []string{binaries.mcpscope, "top", "--interval", "100ms"}
	}
	cmd := w.Command(line...)
	group := w.Unique("terminal")
	s := &topScreen{transparent.StartTerminal(w.T, cmd, func() error { return escape.StartIn(group, cmd) }), w.T}
	s.Resize(40, 120)
	return s
}

var (
	controls = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
	newLine  = regexp.MustCompile("\x1b\\[[0-9]+H")
)

// last is the last frame that was drawn, as lines.
func last(all string) []string {
	parts := strings.Split(all, "\x1b[H")
	text, _, _ := strings.Cut(parts[len(parts)-1], left)
	return strings.Split(controls.ReplaceAllString(newLine.ReplaceAllString(text, "\n"), ""), "\n")
}

// shows waits for a frame with texts in this order.
func (s *topScreen) shows(texts ...string) {
	s.t.Helper()
	s.until(func(lines []string) bool {
		rest := strings.Join(lines, "\n")
		for _, text := range texts {
			at := strings.Index(rest, text)
			if at < 0 {
				return false
			}
			rest = rest[at+len(text):]
		}
		return true
	}, texts)
}

// hides waits for a frame without text.
func (s *topScreen) hides(text string) {
	s.t.Helper()
	s.until(func(lines []string) bool { return !strings.Contains(strings.Join(lines[:len(lines)-1], "\n"), text) }, "no "+text)
}

func (s *topScreen) until(enough func(lines []string) bool, what any) {
	s.t.Helper()
	if !s.Await(escape.Patience, func(all string) bool { return enough(last(all)) }) {
		s.t.Fatalf("not %q, but\n%s", what, strings.Join(last(s.All()), "\n"))
	}
}

// ended waits for the end of top itself, and looks at the terminal.
func (s *topScreen) ended() syscall.WaitStatus {
	s.t.Helper()
	if !s.Await(escape.Patience, func(all string) bool { return strings.HasSuffix(all, left) }) {
		s.t.Error("the screen is not left")
	}
	_ = s.Cmd.Wait() // its status is looked at by the caller
	if !s.Cooked() {
		s.t.Error("the terminal is not as it was")
	}
	return s.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func named(name string) []string { return []string{"--backend", "cgroup", "--name", name} }

func TestTopShowsAndSorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	startServer(w, []string{"--group"}, named("time"), binaries.Zoo, "plain")
	startServer(w, []string{"--group"}, named("browser"), binaries.probe, "--members", "2")
	line := append([]string{binaries.mcpscope, "run"}, named("index")...)
	w.NewClient(w.Unique("client"), []string{"--group"}, append(line, "--", "sh", "-c", "while :; do :; done")) // busy
	s := startTop(w)
	s.shows("servers", "NAME", "CPU%", "index")
	s.until(func(lines []string) bool {
		return slices.ContainsFunc(lines, func(line string) bool {
			row := strings.Fields(line)
			return len(row) > 5 && row[1] == "index" && row[5] != "-" && !strings.HasPrefix(row[5], "0.")
		})
	}, "1 % or more for a busy server")
	s.shows("index", "browser", "time") // by CPU, from the start
	s.Resize(8, 100)
	s.until(func(lines []string) bool { return len(lines) == 8 }, "8 lines")
	t.Logf("\n%s", strings.Join(last(s.All()), "\n")) // for docs/operators.md
	s.Resize(40, 120)
	for keys, order := range map[string][]string{"n": {"browser", "time"}, "a": {"time", "browser"}, "p": {"browser", "time"}} {
		s.Type(keys)
		s.shows(order...)
		s.Type("r")
		slices.Reverse(order)
		s.shows(order...)
		s.Type("r")
	}
	s.Type("/BRO")
	s.hides("time")
	s.shows("browser", "/BRO")
	s.Type("\x7f\x7f\x7ftim\r")
	s.hides("browser")
	s.Type("\x1b")
	s.shows("browser")
	s.Type("q")
	if status := s.ended(); status != 0 {
		t.Errorf("q: %v", status)
	}
}

func TestTopEndsServers(t *testing.T) {
	views(t, func(t *testing.T, w *world, start func([]string, ...string) *server) {
		spared, victim := start(nil, binaries.Zoo, "plain"), start(nil, binaries.Zoo, "plain")
		id, other := w.list([]*server{victim}, "ls")[0].ID, w.list([]*server{spared}, "ls")[0].ID
		s := startTop(w)
		s.Type("/" + id + "\r") // trees are seen in every world
		s.shows("1 with", id)
		s.hides(other)
		for _, state := range []string{"frozen", "running"} {
			s.Type("f")
			s.shows(id + "  server  " + state)
		}
		s.Type("s")
		s.shows("Stop server (" + id)
		s.Type("n")
		s.shows("not stopped")
		if !victim.Lives("still there?") {
			t.Fatal("stopped without a yes")
		}
		s.Type("s")
		s.shows("Stop server (" + id)
		s.Type("y")
		s.shows("stopped server (" + id)
		if left := victim.members.Running(); len(left) > 0 {
			t.Errorf("they run: %q", left)
		}
		s.hides("running")
		if !spared.Lives("still there?") {
			t.Error("another server was hit")
		}
		s.Type("\x03")
		if status := s.ended(); status != 0 {
			t.Errorf("^C: %v", status)
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
	s := startTop(w)
	s.Type("/日本\r")
	s.shows("日本語の名前?[2J")
	for _, size := range [][2]uint16{{5, 20}, {1, 1}, {2, 7}, {50, 200}, {24, 80}} {
		s.Resize(size[0], size[1])
		s.until(func(lines []string) bool {
			return len(lines) == int(size[0]) && !slices.ContainsFunc(lines, func(line string) bool { return wide(line) > int(size[1]) })
		}, size)
		if size[0] == 5 {
			s.shows("NAME", "日", "q quit")
		}
	}
	for _, bad := range []string{"\x1b[2J", "\x9b", "\u202e", strings.Repeat("z\u0301", 40)} {
		if strings.Contains(s.All(), bad) {
			t.Errorf("%q on the terminal", bad)
		}
	}
	s.Type("q")
	s.ended()
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
			s := startTop(newWorld(t))
			s.shows("q quit")
			if s.Cooked() {
				t.Error("the terminal edits lines: then this test tests nothing")
			}
			if err := s.Cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if status := s.ended(); !status.Signaled() || status.Signal() != sig {
				t.Errorf("ended with %v", status)
			}
		})
	}
	t.Run("hang-up", func(t *testing.T) {
		t.Parallel()
		s := startTop(newWorld(t))
		s.shows("q quit")
		s.HangUp()
		_ = s.Cmd.Wait() // its status is looked at
		if status := s.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != unix.SIGHUP {
			t.Errorf("ended with %v", status)
		}
	})
}

func TestTopInAShell(t *testing.T) {
	t.Parallel()
	s := startTop(newWorld(t), "bash", "--norc", "--noprofile", "--noediting", "-i")
	s.Expect("PROMPT ")
	s.Type(binaries.mcpscope + " top --interval 100ms\n")
	s.Expect(entered, "q quit")
	for range 3 {
		s.Type("\x1a")
		s.Expect(left, "Stopped", "PROMPT ")
		s.Type("stty -a | grep -c ' echo '\n")
		s.Expect("\n1\r", "PROMPT ")
		s.Type("fg\n")
		s.Expect(entered, "q quit")
	}
	s.Type("\x1a")
	s.Expect(left, "Stopped", "PROMPT ")
	s.Type("bg\n") // not a reason to touch the terminal
	s.Expect("top --interval 100ms &", "PROMPT ")
	s.Type("stty -a | grep -c ' echo '\n")
	s.Expect("\n1\r", "PROMPT ")
	s.Type("fg\n") // bash sends no signal: it runs already
	s.Expect(entered, "q quit")
	s.Type("/x")
	s.Expect("/x_")
	s.Type("\rq")
	s.Expect(left, "PROMPT ")
	s.Type("echo status-$?; stty -a | grep -c ' echo '\n")
	s.Expect("status-0\r\n1\r")
}

func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.run(w.mcpscope("top"))
	if o.status.ExitStatus() != 1 || o.stdout != "" || !strings.Contains(o.stderr, "is no terminal\nmcpscope: hint: mcpscope ls\n") {
		t.Errorf("%v, %q; stderr: %s", o.status, o.stdout, o.stderr)
	}
}
