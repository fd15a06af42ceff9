// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
	"github.com/mcpscope/mcpscope/test/bed"
)

func TestMain(m *testing.M) { bed.Main(m) }

// output runs a shell script and returns what it wrote to the file that $OUT names.
func output(t *testing.T, c Cmd, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "out")
	c.Path, c.Argv, c.Env = "/bin/sh", []string{"sh", "-c", script}, append(c.Env, "OUT="+file)
	pid, err := c.Start()
	if err != nil {
		t.Fatal(err)
	}
	raw.Reap(pid)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// directory is a group of a test's own.
type directory struct{ *os.File }

func (d directory) FD() int { return int(d.Fd()) }

func (d directory) OpenProcs() (int, error) {
	return unix.Openat(d.FD(), "cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

func group(t *testing.T) directory {
	t.Helper()
	f, err := os.Open(bed.Group(t, "spawn"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return directory{f}
}

func TestStart(t *testing.T) {
	g := group(t)
	for script, c := range map[string]struct {
		cmd  Cmd
		want string
	}{
		"grep -o '^0::/[^/]*' /proc/self/cgroup": {Cmd{Group: g}, "0::/" + filepath.Base(g.Name())},
		"ulimit -Sn; ulimit -Hn": {Cmd{NoFile: &unix.Rlimit{Cur: 321, Max: 4000}},
			"321\n4000"},
		"tr '\\0' '\\n' </proc/$$/environ | grep -c ^A=": {Cmd{Env: []string{"A=1", "A=2"}}, "2"},
		"test $$ = $(cut -d' ' -f5 /proc/$$/stat)":       {Cmd{}, ""},
	} {
		if got := output(t, c.cmd, "{ "+script+`; } >"$OUT" || echo no >"$OUT"`); got != c.want {
			t.Errorf("%s: %q, want %q", script, got, c.want)
		}
	}
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("exit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want unix.Errno
	}{{dir + "/none", unix.ENOENT}, {dir, unix.EACCES}, {script, unix.ENOEXEC}} {
		for _, detach := range []bool{false, true} {
			_, err := (&Cmd{Path: c.path, Argv: []string{"x"}, Detach: detach}).Start()
			var e *StartError
			if !errors.As(err, &e) || e.Step != StepExec || e.Errno != c.want {
				t.Errorf("start %s (detached %v): %v, want %v", c.path, detach, err, c.want)
			}
		}
	}
}
