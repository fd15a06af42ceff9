// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// The runner and the commands here read the same words in the same way, and report mistakes in the same words.
func TestFlagsAreReadAsByTheRunner(t *testing.T) {
	for _, line := range []string{
		"-qv x", "-q -v -- x", "--name a x", "--name=a x", "-name a x", "--name", "--name --", "--report= x",
		"--require=false x", "--require=1 x", "--require=maybe x", "--no-require x", "--nope", "-x", "-qx", "-qn",
		"--memmory-max 1G x", "--idle 5m", "--match a --match b x", "--name a --name b x", "x --name a -q",
		"-- --name a", "x -- -q", "-", "-h", "--help", "-help", "-qh", "--name a --help --nope", "---name", "--=a", "",
	} {
		words := strings.Fields(line)
		operands, help, err := settings.Defaults().FromArguments(settings.Run, words)
		if help {
			err = flags.ErrHelp
		}
		root := newRoot(cli.Stdio{})
		_, got, gotErr := setFlags(root, append([]string{"run"}, words...))
		want := append([]string{"run", "--"}, operands...)
		if errors.Is(err, flags.ErrHelp) {
			want = []string{"run", "--help"}
			err = nil
		}
		if text, wantText := errorText(gotErr), errorText(err); text != wantText {
			t.Errorf("%s: error %q, and %q of the runner", line, text, wantText)
		}
		if err == nil && strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %q, and %q of the runner", line, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Flags may be among the operands, unless these are the command line of another program.
func TestMistakesInFlags(t *testing.T) {
	for line, want := range map[string]string{
		"ls --jsn":                       "unknown flag \"--jsn\"; did you mean --json?",
		"ls --json=maybe":                "--json \"maybe\": \"maybe\" is neither true nor false",
		"logs -fx":                       "unknown flag \"-fx\"",
		"logs -fn":                       "flag -n needs a value",
		"stop x --grace":                 "flag --grace needs a value",
		"stop --grace x --grace=-1s":     "--grace \"x\": ",
		"detach --dr x":                  "unknown flag \"--dr\"",
		"wrap a --jso":                   "unknown flag \"--jso\"; did you mean --json?",
		"completion bash --no-desc":      "unknown flag \"--no-desc\"; did you mean --no-descriptions?",
		"completion --no-descriptions x": "unknown flag \"--no-descriptions\"",
		"ls -- --json":                   "unexpected argument \"--json\"",
	} {
		name := strings.Fields(line)[0]
		if strings.HasPrefix(line, "completion bash") {
			name = "completion bash"
		}
		s := say(strings.Fields(line)...)
		if s.status != cli.ExitUsage || s.out != "" || !strings.HasPrefix(s.err, "mcpscope: "+name+": "+want) {
			t.Errorf("%s: %+v, want %s", line, s, want)
		}
	}
	if s := say("detach", "/nonexistent/program", "--nope"); s.status != cli.ExitNotFound {
		t.Errorf("a flag of another program was read: %+v", s)
	}
}
