// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/raw"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
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
	own := strconv.Itoa(unix.Getpgrp())
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
		"cut -d' ' -f5 /proc/$$/stat":                    {Cmd{Pgid: unix.Getpgrp()}, own},
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

// outcome waits for what became of a pair, and for its parent, which comes home to us.
func outcome(t *testing.T, p *Pair) (*unix.WaitStatus, error) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	p.Null = null
	b, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if !escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(b.FD()), Events: unix.POLLIN}) {
		t.Fatal("nothing is heard of the two")
	}
	known, ended, err := b.Outcome()
	if !known {
		t.Error("it is not known, although there is something to read")
	}
	for gone := error(nil); !errors.Is(gone, unix.ECHILD); { // the parent, and a main process that it has left
		_, gone = unix.Wait4(-1, nil, 0, nil)
	}
	return ended, err
}

func TestPair(t *testing.T) {
	file, ours, theirs := filepath.Join(t.TempDir(), "out"), group(t), group(t)
	script := `echo $(cut -d' ' -f4 /proc/$1/stat) $$ $(cat /proc/self/cgroup /proc/$1/cgroup | grep -o '0::/[^/]*') >"$OUT"; kill $1`
	_, err := outcome(t, &Pair{
		Parent: Cmd{
			Path: "/bin/sh", Mask: new(uint64), Argv: []string{"sh", "-c", script, "parent", PIDDigits},
			Env: []string{"PATH=/usr/bin:/bin", "OUT=" + file}, Group: ours,
		},
		Main: Cmd{Path: "/bin/sleep", Mask: new(uint64), Argv: []string{"sleep", "infinity"}, Group: theirs},
		PID:  4,
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, groups := strings.Fields(string(b)), "0::/"+filepath.Base(ours.Name())+" 0::/"+filepath.Base(theirs.Name())
	if len(got) != 4 || got[0] != got[1] || strings.Join(got[2:], " ") != groups {
		t.Errorf("main's parent, the parent, their groups: %q, want twice the same, and %s", got, groups)
	}
}
