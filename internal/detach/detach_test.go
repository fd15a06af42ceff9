// SPDX-License-Identifier: Apache-2.0

package detach

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The command gets no variable that is about the caller, and hears of each other one that it does not get.
func TestInherited(t *testing.T) {
	env := []string{
		"PATH=/bin", "MCPSCOPE_ID=k3x9w2ab", "NOTIFY_SOCKET=/x", "LISTEN_FDS=1", "1A=x", "A-B=x", "=x", "D=a\nb", "_E1=",
	}
	kept, refused := inherited(env)
	if want := []string{"PATH=/bin", "D=a\nb", "_E1="}; !slices.Equal(kept, want) {
		t.Errorf("%q, want %q", kept, want)
	}
	if want := []string{"1A", "A-B", ""}; !slices.Equal(refused, want) {
		t.Errorf("without a word: %q, want %q", refused, want)
	}
}

// A manager takes text alone. What is not text is an error, and nothing is left out.
func TestTextAlone(t *testing.T) {
	for name, c := range map[string]struct {
		env, args []string
		dir, want string
	}{
		"text":      {[]string{"A=é"}, []string{"é"}, "/é", ""},
		"variable":  {[]string{"A=é", "DIR=/caf\xe9"}, nil, "/", "DIR"},
		"argument":  {nil, []string{"a", "/caf\xe9"}, "/", "argument"},
		"directory": {nil, nil, "/caf\xe9", "directory"},
	} {
		err := checkText(c.env, c.args, c.dir)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No value of a variable is on the command line.
func TestRunArguments(t *testing.T) {
	env := []string{"TOKEN=SECRET", "PATH=/bin"}
	for uid, want := range map[int]string{
		0:    " --setenv=TOKEN --setenv=PATH -- /bin/a\x1b $$HOME --user",
		1000: " --setenv=TOKEN --setenv=PATH --user --slice=app.slice -- /bin/a\x1b $$HOME --user",
	} {
		line := strings.Join(runArguments(uid, env, "/bin/a\x1b", []string{"$HOME", "--user"}), " ")
		if !strings.HasSuffix(line, want) || strings.Contains(line, "SECRET") ||
			!strings.Contains(line, " --description=a?, by mcpscope detach ") || !strings.Contains(line, " --unit=detached-") {
			t.Errorf("uid %d: %q", uid, line)
		}
	}
}

// The manager resolves a relative path from its own directory, so the path is absolute.
func TestFindCommand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv("PATH", "")
	for _, command := range []string{"tool", "./tool", filepath.Join(dir, "tool")} {
		got, err := FindCommand(command)
		if err != nil || !filepath.IsAbs(got) || filepath.Base(got) != "tool" {
			t.Errorf("%s: %q (%v)", command, got, err)
		}
	}
	if got, err := FindCommand("missing"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("%q (%v)", got, err)
	}
}
