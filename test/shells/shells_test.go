// SPDX-License-Identifier: Apache-2.0

// Package shells tries the completions in the real shells, on a real terminal.
package shells

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/tmux"
)

var programs string

func TestMain(m *testing.M) {
	bed.Main(m, escape.BuildTemporary(func(dir string) map[string][]string {
		programs = dir
		return nil
	}))
}

const (
	bash   = "bash --norc --noprofile -i"
	quiet  = "bind 'set show-all-if-ambiguous on' 'set page-completions off' 'set completion-query-items 0' 'set enable-bracketed-paste off'; "
	plugin = ". /usr/share/bash-completion/bash_completion; "
)

// Each shell gets its setup first. bash and git are everywhere; zsh and fish are optional.
var shells = []struct{ name, argv, setup string }{
	{"bash", bash, quiet + plugin + "source <(mcpscope completion bash)"},
	{"zsh", "zsh -f -i", "unsetopt beep; autoload -Uz compinit && compinit -u -D; source <(mcpscope completion zsh)"},
	{"fish", "fish --private", "set -g fish_greeting; mcpscope completion fish | source"},
}

// Each line becomes the second when Tab is pressed: commands, flags and values; files; and names of
// servers.
var lines = [][2]string{
	{"mcpscope insp", "mcpscope inspect"},
	{"mcpscope run --on-client-death ign", "mcpscope run --on-client-death ignore"},
	{"mcpscope ls --cli", "mcpscope ls --client"},
	{"mcpscope run --name x cat /proc/self/mountin", "/proc/self/mountinfo"},
	{"mcpscope stop time-s", "mcpscope stop time-server"},
}

func TestShellsComplete(t *testing.T) {
	cmd := exec.Command(filepath.Join(programs, "mcpscope"), "run", "--name", "time-server", "--", "sh",
		"-c", "echo ready; cat")
	escape.StartTalk(t, cmd, cmd.Start).Hear("ready") // until the end of the test
	for _, s := range shells {
		t.Run(s.name, func(t *testing.T) {
			argv := strings.Fields(s.argv)
			if _, err := exec.LookPath(argv[0]); err != nil {
				t.Skipf("%v: .ci/deps extra installs it", err)
			}
			dir := t.TempDir()                           // before the group, which is killed first
			if err := os.Chmod(dir, 0o700); err != nil { // fish takes no other for its runtime directory
				t.Fatal(err)
			}
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = []string{"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + dir,
				"XDG_RUNTIME_DIR=" + dir,
				"TERM=xterm-256color", "LANG=C.UTF-8", "PS1=READY ", "PROMPT=READY "}
			group := bed.Group(t, "screen")
			screen := tmux.Start(t, 120, 50, cmd, func() error { return escape.StartIn(group, cmd) })
			screen.Type(s.setup + "; clear; echo LOA''DED")
			screen.Press("Enter")
			screen.Shows("LOADED")
			for _, l := range lines {
				screen.Press("C-u", "C-l")
				screen.Type(l[0])
				screen.Shows(l[0])
				screen.Press("Tab")
				screen.Shows(l[1])
			}
		})
	}
}
