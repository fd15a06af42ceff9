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

// The command gets no variable that is about the caller.
func TestInherited(t *testing.T) {
	env := []string{
		"PATH=/bin", "MCPSCOPE_ID=k3x9w2ab", "NOTIFY_SOCKET=/x", "LISTEN_FDS=1", "1A=x", "A-B=x", "=x", "C=\xff", "D=a\nb",
		"_E1=",
	}
	want := []string{"PATH=/bin", "D=a\nb", "_E1="}
	if got := inherited(slices.Clone(env)); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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
