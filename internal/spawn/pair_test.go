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
	var ready [2]int
	if err := unix.Pipe2(ready[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return outcomeOf(t, p, ready)
}

// outcomeOf is the same, where ready is the pipe that tells who stands by that the parent is ready.
func outcomeOf(t *testing.T, p *Pair, ready [2]int) error {
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
	p.Standby = standbyOf(t, p.Main.Group.(directory), ready)
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

// standbyOf is one that kills a group.
func standbyOf(t *testing.T, g directory, ready [2]int) Standby {
	t.Helper()
	kill, err := unix.Openat(g.FD(), "cgroup.kill", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs cgroup.kill (Linux 5.14): %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(kill) })
	return Standby{Group: group(t), Kill: kill, Ready: ready, Within: 100 * time.Millisecond}
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

// started is a pair of two that sleep, in groups of their own, and the end of a pipe that tells who stands by that the parent
// is ready.
func started(t *testing.T) (b *Birth, ours, theirs directory, ready int) {
	t.Helper()
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	ready, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = group(t), group(t)
	p := Pair{
		Parent: Cmd{Path: "/bin/sleep", Mask: new(uint64), Argv: []string{"sleep", "1000", PIDDigits}, Group: ours},
		Main:   Cmd{Path: "/bin/sleep", Argv: []string{"sleep", "1000"}, Group: theirs}, PID: 2, Null: pipe[0], Standby: standbyOf(t, theirs, pipe),
	}
	if b, err = p.Start(); err != nil {
		t.Fatal(err)
	}
	return b, ours, theirs, ready
}

// alone tells whether nobody stands by any more.
func alone(b *Birth) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.Standby())}}, int(time.Minute.Milliseconds()))
	return err == nil && n == 1
}

func members(t *testing.T, g directory) string {
	t.Helper()
	all, err := os.ReadFile(filepath.Join(g.Name(), "cgroup.procs"))
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

func TestStandbyLeavesWhoIsReady(t *testing.T) {
	b, _, theirs, ready := started(t)
	defer b.Close()
	if _, err := unix.Write(ready, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if !alone(b) || members(t, theirs) == "" {
		t.Errorf("members: %q; want one, and that nobody stands by", members(t, theirs))
	}
}

// The caller has died when nobody has its end of the pipe any more.
func TestStandbyKills(t *testing.T) {
	b, _, theirs, ready := started(t)
	defer b.Close()
	defer unix.Close(ready)
	gone, err := unix.FcntlInt(uintptr(theirs.Fd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(gone)
	events, err := unix.Openat(gone, "cgroup.events", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	_ = unix.Close(b.Standby())
	deadline := time.Now().Add(time.Minute)
	for buf := make([]byte, 256); ; {
		n, err := unix.Pread(events, buf, 0)
		if err != nil || strings.Contains(string(buf[:n]), "populated 0") {
			return // removed is as good
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}}, int(time.Until(deadline).Milliseconds())); err != nil && !errors.Is(err, unix.EINTR) || time.Now().After(deadline) {
			t.Fatalf("members are left: %q (%v)", members(t, theirs), err)
		}
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
