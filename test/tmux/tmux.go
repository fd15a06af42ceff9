// SPDX-License-Identifier: Apache-2.0

// Package tmux shows programs on a real terminal emulator, types at them, and reads the screen.
package tmux

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Screen is one terminal, of a tmux server of its own.
type Screen struct {
	t      testing.TB
	socket string
}

// Start runs a command on a screen of that size. It is started by start, as the caller starts
// things: in a group of the sandbox, where everything on the screen is ended with the test.
func Start(t testing.TB, width, height int, cmd *exec.Cmd, start func() error) *Screen {
	t.Helper()
	program, err := exec.LookPath("tmux")
	if err != nil {
		t.Skip("tmux is not installed: .ci/deps does it")
	}
	s := &Screen{t: t, socket: filepath.Join(escape.OpenDir(t), "tmux")}
	size := []string{"-x", fmt.Sprint(width), "-y", fmt.Sprint(height)}
	cmd.Args = slices.Concat([]string{program, "-S", s.socket, "-f", "/dev/null", "new-session", "-d"},
		size, []string{"--", "/bin/sh", "-c", wrapped, "sh"}, cmd.Args)
	cmd.Path = program
	if err = start(); err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		t.Fatalf("start tmux: %v", err)
	}
	s.tmux(slices.Concat([]string{"set-option", "-g", "status", "off", ";", "set-option", "-g",
		"escape-time", "0", ";",
		"set-option", "-g", "remain-on-exit", "on", ";", "resize-window"}, size)...)
	return s
}

// wrapped says on the screen how a command ended, and keeps the screen.
const wrapped = `"$@"; printf '\n[it ended with %s]\n' $?; read -r forever`

// Status waits for the end of the command, and returns its status as a shell has it.
func (s *Screen) Status() string {
	s.t.Helper()
	lines := s.Shows("[it ended with ", "]")
	_, rest, _ := strings.Cut(strings.Join(lines, "\n"), "[it ended with ")
	status, _, _ := strings.Cut(rest, "]")
	return status
}

// PID is that of a shell whose child the command is.
func (s *Screen) PID() int {
	s.t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_pid}")))
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// Is asks tmux for something that is true or false, like alternate_on.
func (s *Screen) Is(what string) bool {
	return strings.TrimSpace(s.tmux("display-message", "-p", "#{"+what+"}")) == "1"
}

func (s *Screen) tmux(args ...string) string {
	out, _ := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...).Output() // an empty screen fails what asked for it
	return string(out)
}

// Close closes the terminal.
func (s *Screen) Close() { s.tmux("kill-server") }

// Type types text as it is.
func (s *Screen) Type(text string) { s.tmux("send-keys", "-l", "--", text) }

// Press presses keys by tmux's names: Enter, Tab, Down, PPage, C-c.
func (s *Screen) Press(keys ...string) { s.tmux(append([]string{"send-keys", "--"}, keys...)...) }

// Resize makes the terminal another size.
func (s *Screen) Resize(width, height int) {
	s.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
}

// Lines are those of the screen, without blanks at their ends.
func (s *Screen) Lines() []string {
	return strings.Split(strings.TrimSuffix(s.tmux("capture-pane", "-p"), "\n"), "\n")
}

// Until waits for a screen that is as wanted, and returns its lines.
func (s *Screen) Until(what string, wanted func(lines []string) bool) []string {
	s.t.Helper()
	for deadline := pace.Now().Add(escape.Patience); ; time.Sleep(20 * time.Millisecond) {
		lines := s.Lines()
		if wanted(lines) {
			return lines
		}
		if pace.Until(deadline) <= 0 {
			s.t.Fatalf("no %s, but\n%s", what, strings.Join(lines, "\n"))
		}
	}
}

// Shows waits for a screen with these texts, in this order.
func (s *Screen) Shows(texts ...string) []string {
	s.t.Helper()
	return s.Until(fmt.Sprintf("%q", texts), func(lines []string) bool {
		rest := strings.Join(lines, "\n")
		for _, text := range texts {
			at := strings.Index(rest, text)
			if at < 0 {
				return false
			}
			rest = rest[at+len(text):]
		}
		return true
	})
}
