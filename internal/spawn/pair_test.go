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
	"time"

	"golang.org/x/sys/unix"
)

// outcome waits for what became of a pair, and for its parent, which comes home to us.
func outcome(t *testing.T, p *Pair) error {
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
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, int(time.Minute.Milliseconds())); n != 1 {
		t.Fatalf("nothing is heard of the two: %v", err)
	}
	known, err := b.Outcome()
	if !known {
		t.Error("it is not known, although there is something to read")
	}
	for { // the parent, and a main process that it has left
		_, gone := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(gone, unix.ECHILD) {
			return err
		}
	}
}

func TestPair(t *testing.T) {
	file, ours, theirs := filepath.Join(t.TempDir(), "out"), group(t), group(t)
	script := `echo "$1 $(cut -d' ' -f4 /proc/$1/stat) $$ $(cat /proc/self/cgroup /proc/$1/cgroup | grep -o '0::/[^/]*' | tr '\n' ' ')$(cat /proc/$1/cmdline | tr '\0' ' ')" >"$OUT"; kill $1`
	err := outcome(t, &Pair{
		Parent: Cmd{Path: "/bin/sh", Mask: new(uint64), Argv: []string{"sh", "-c", script, "parent", PIDDigits, "after"}, Env: []string{"PATH=/usr/bin:/bin", "OUT=" + file}, Group: ours},
		Main:   Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Group: theirs},
		PID:    4,
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(b))
	want := []string{"0::/" + filepath.Base(ours.Name()), "0::/" + filepath.Base(theirs.Name()), "sleep", "1000"}
	if len(got) != 7 || strings.Join(got[3:], " ") != strings.Join(want, " ") || got[1] != got[2] {
		t.Errorf("pid, its parent, that is, their groups, command line: %q, want %q at the end and twice the same before it", got, want)
	}
}

// Whichever of the two can't be executed, neither is left.
func TestPairFails(t *testing.T) {
	for name, c := range map[string]struct {
		parent, main string
		step         Step
		ofParent     bool
	}{
		"main":   {"/bin/true", "/nonexistent", StepExec, false},
		"parent": {"/nonexistent", "/bin/true", StepExec, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := outcome(t, &Pair{
				Parent: Cmd{Path: c.parent, Mask: new(uint64), Argv: []string{"parent", PIDDigits}, Group: group(t)}, Main: Cmd{Path: c.main, Argv: []string{"main"}, Group: group(t)}, PID: 1,
			})
			var start *StartError
			if !errors.As(err, &start) || start.Step != c.step || start.Errno != unix.ENOENT || start.Path != "/nonexistent" || errors.Is(err, ErrParent) != c.ofParent {
				t.Errorf("%v, want ENOENT of %s", err, name)
			}
		})
	}
}

func TestWritePID(t *testing.T) {
	for _, pid := range []int{1, 42, 4194304} {
		room := *(*[len(PIDDigits) + 1]byte)([]byte(PIDDigits + "\x00"))
		writePID(&room, uintptr(pid))
		if got, _, _ := strings.Cut(string(room[:]), "\x00"); got != strconv.Itoa(pid) {
			t.Errorf("%d is written %q", pid, got)
		}
	}
}
