// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

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

// Whichever of the two can't be executed, neither is left.
func TestPairFails(t *testing.T) {
	for parent, main := range map[string]string{"/bin/true": "/nonexistent", "/nonexistent": "/bin/true"} {
		_, err := outcome(t, &Pair{
			Parent: Cmd{Path: parent, Mask: new(uint64), Argv: []string{"parent", PIDDigits}, Group: group(t)},
			Main:   Cmd{Path: main, Mask: new(uint64), Argv: []string{"main"}, Group: group(t)}, PID: 1,
		})
		var start *StartError
		if !errors.As(err, &start) || start.Step != StepExec || start.Errno != unix.ENOENT || errors.Is(err, ErrParent) != (parent == "/nonexistent") {
			t.Errorf("parent %s, main %s: %v", parent, main, err)
		}
	}
}

// A caller has died when nobody has its end of the pipe any more: the group is killed, and removed.
func TestStandbyKills(t *testing.T) {
	parent := group(t)
	s, err := StandBy(group(t), parent, "guarded", []string{"leaf"}, time.Hour, Cleaner{Path: "/bin/sh", Argv: func(fd int) []string {
		return []string{"sh", "-c", fmt.Sprintf("until rmdir /proc/self/fd/%[1]d/guarded/leaf; do :; done; rmdir /proc/self/fd/%[1]d/guarded", fd)}
	}})
	if err != nil {
		t.Fatal(err)
	}
	leaf := filepath.Join(parent.Name(), "guarded", "leaf")
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(leaf)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s.Birth()
	pid, err := (&Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "infinity"}, Group: directory{f}}).Start()
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(s.Ready)
	_ = unix.Close(s.alive)
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil || ws.Signal() != unix.SIGKILL {
		t.Fatalf("the member: %v, %v", ws, err)
	}
	if err := escape.AwaitRemoval(filepath.Dir(leaf), escape.Patience); err != nil {
		t.Error(err)
	}
}
