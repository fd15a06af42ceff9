// SPDX-License-Identifier: Apache-2.0

// Package shells tries the completions in the real shells, on a real terminal.
package shells

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/tmux"
)

var programs string

func TestMain(m *testing.M) {
	bed.Main(m, func() (func(), error) {
		return escape.BuildTemporary(func(dir string) map[string][]string {
			programs = dir
			return nil
		})
	})
}

// shell is one that completes.
type shell struct {
	name  string
	argv  []string
	setup func(dir string) string // what it is told first
}

var all = []shell{
	{"bash", []string{"bash", "--norc", "--noprofile", "-i"}, func(string) string {
		return "bind 'set show-all-if-ambiguous on' 'set page-completions off' 'set completion-query-items 0' 'set enable-bracketed-paste off'; " +
			". /usr/share/bash-completion/bash_completion; source <(mcpscope completion bash)"
	}},
	{"bash without bash-completion", []string{"bash", "--norc", "--noprofile", "-i"}, func(string) string {
		return "bind 'set show-all-if-ambiguous on' 'set page-completions off'; source <(mcpscope completion bash)"
	}},
	{"zsh", []string{"zsh", "-f", "-i"}, func(string) string {
		return "unsetopt beep; autoload -Uz compinit && compinit -u -D; source <(mcpscope completion zsh)"
	}},
	{"zsh, from fpath", []string{"zsh", "-f", "-i"}, func(dir string) string {
		return "unsetopt beep; mcpscope completion zsh >" + dir + "/_mcpscope; fpath=(" + dir + " $fpath); autoload -Uz compinit && compinit -u -D"
	}},
	{"fish", []string{"fish", "--private"}, func(string) string {
		return "set -g fish_greeting; mcpscope completion fish | source"
	}},
}

// start starts a shell with the completions loaded.
func (s shell) start(t *testing.T) *tmux.Screen {
	t.Helper()
	if _, err := exec.LookPath(s.argv[0]); err != nil {
		t.Skipf("%s is not installed: .ci/deps does it", s.argv[0])
	}
	dir := t.TempDir()                           // before the group, which is ended first
	if err := os.Chmod(dir, 0o700); err != nil { // fish takes no other for its runtime directory
		t.Fatal(err)
	}
	env := []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + dir, "XDG_RUNTIME_DIR=" + dir, "TERM=xterm-256color", "LANG=C.UTF-8", "PS1=READY ", "PROMPT=READY "}
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = env
	group := bed.Group(t, "screen")
	screen := tmux.Start(t, 120, 50, cmd, func() error { return escape.StartIn(group, cmd) })
	screen.Type(s.setup(dir) + "; clear; echo LOA''DED")
	screen.Press("Enter")
	screen.Shows("LOADED")
	return screen
}

// complete types a line and presses Tab, and returns what the screen shows then. The line is erased
// first.
func complete(screen *tmux.Screen, line, want string) string {
	screen.Press("C-u")
	screen.Press("C-l")
	screen.Type(line)
	screen.Until("typed line", func(lines []string) bool { return strings.Contains(strings.Join(lines, "\n"), strings.TrimSpace(line)) })
	screen.Press("Tab")
	lines := screen.Until(fmt.Sprintf("%q after %q", want, line), func(lines []string) bool { return strings.Contains(strings.Join(lines, "\n"), want) })
	return strings.Join(lines, "\n")
}

func TestShellsComplete(t *testing.T) {
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			screen := s.start(t)
			for _, c := range [][2]string{
				{"mcpscope insp", "mcpscope inspect"},
				{"mcpscope run --eof", "mcpscope run --eof-grace"},
				{"mcpscope run --on-client-death ign", "mcpscope run --on-client-death ignore"},
				{"mcpscope gateway --no-new-p", "mcpscope gateway --no-new-privs"},
				{"mcpscope completion fi", "mcpscope completion fish"},
				{"mcpscopectl dupl", "mcpscopectl dupl"}, // nothing
				{"mcpscopectl ls --dup", "mcpscopectl ls --duplicates"},
				{"mcpscope run -q -- ca", "catman"}, // a command
				{"mcpscope run --name x cat /proc/self/mountin", "/proc/self/mountinfo"},
			} {
				complete(screen, c[0], c[1])
			}
		})
	}
}

// Behind the command of a server the words are that command's own.
func TestCommandsOfServersComplete(t *testing.T) {
	for _, s := range all {
		if s.name == "bash without bash-completion" {
			continue // it has no completion of git
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			screen := s.start(t)
			bare := offered(complete(screen, "git sta", "stash"))
			if len(bare) < 2 {
				t.Fatalf("without mcpscope: %q", bare)
			}
			for _, before := range []string{"mcpscope run -- ", "mcpscope run --memory-max=1G --report fd:2 -q ", "mcpscope gateway --match a "} {
				complete(screen, before+"git statu", before+"git status")
				if got := offered(complete(screen, before+"git sta", "stash")); !slices.Equal(got, bare) {
					t.Errorf("%sgit sta: %q, without: %q", before, got, bare)
				}
			}
		})
	}
}

// offered are the words on a screen that "sta" may become.
func offered(text string) []string {
	var words []string
	for _, w := range strings.Fields(text) {
		if strings.HasPrefix(w, "sta") && len(w) > 3 && len(w) < 7 {
			words = append(words, w)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// The names of servers that run are completed.
func TestServersComplete(t *testing.T) {
	cmd := exec.Command(filepath.Join(programs, "mcpscope"), "run", "--name", "time-server", "--", "cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stdin.Close() // which ends it
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	listed := func() bool {
		out, _ := exec.Command(filepath.Join(programs, "mcpscope"), "ls", "-q").Output()
		return len(out) > 0
	}
	for deadline := time.Now().Add(escape.Patience); !listed(); escape.PollFor(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server is not listed")
		}
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			complete(s.start(t), "mcpscope stop time-s", "mcpscope stop time-server")
		})
	}
}
