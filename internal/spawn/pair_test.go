// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(b.FD()), Events: unix.POLLIN}}, int(time.Minute.Milliseconds())); n != 1 {
		t.Fatalf("nothing is heard of the two: %v", err)
	}
	known, ended, err := b.Outcome()
	if !known {
		t.Error("it is not known, although there is something to read")
	}
	for options := 0; ; { // the parent, and a main process that it has left
		pid, gone := unix.Wait4(-1, nil, options, nil)
		if errors.Is(gone, unix.ECHILD) {
			return ended, err
		}
		if gone == nil && pid == 0 {
			t.Error("somebody is left")
			return ended, err
		}
		if ended != nil {
			options = unix.WNOHANG // nobody else is there to end anybody
		}
	}
}

func TestPair(t *testing.T) {
	file, ours, theirs := filepath.Join(t.TempDir(), "out"), group(t), group(t)
	script := `echo "$1 $(cut -d' ' -f4 /proc/$1/stat) $$ $(cat /proc/self/cgroup /proc/$1/cgroup | grep -o '0::/[^/]*' | tr '\n' ' ')$(cat /proc/$1/cmdline | tr '\0' ' ')" >"$OUT"; kill $1`
	_, err := outcome(t, &Pair{
		Parent: Cmd{Path: "/bin/sh", Mask: new(uint64), Argv: []string{"sh", "-c", script, "parent", PIDDigits, "after"}, Env: []string{"PATH=/usr/bin:/bin", "OUT=" + file}, Group: ours},
		Main:   Cmd{Path: "/bin/sleep", Mask: new(uint64), Argv: []string{"sleep", "1000"}, Group: theirs},
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
			_, err := outcome(t, &Pair{
				Parent: Cmd{Path: c.parent, Mask: new(uint64), Argv: []string{"parent", PIDDigits}, Group: group(t)}, Main: Cmd{Path: c.main, Mask: new(uint64), Argv: []string{"main"}, Group: group(t)}, PID: 1,
			})
			var start *StartError
			if !errors.As(err, &start) || start.Step != c.step || start.Errno != unix.ENOENT || start.Path != "/nonexistent" || errors.Is(err, ErrParent) != c.ofParent {
				t.Errorf("%v, want ENOENT of %s", err, name)
			}
		})
	}
}

// A main process that ends at once, and leaves nobody, needs no parent that executes anything.
func TestPairLingers(t *testing.T) {
	for name, c := range map[string]struct {
		script   string
		linger   time.Duration
		wake     bool
		executes bool
	}{
		"ends at once":                        {"exit 3", time.Minute, false, false},
		"has waited for its child":            {"sleep 0; exit 3", time.Minute, false, false},
		"signals its parent":                  {"for s in USR1 USR2 ALRM PIPE 29 30 40 64; do kill -$s $PPID; done; exit 3", time.Minute, false, false},
		"leaves a child":                      {"sleep 1000 & exit 3", time.Minute, false, true},
		"leaves one in another group":         {"echo 0 >$ELSEWHERE; sleep 1000 & exit 3", time.Minute, false, true},
		"goes on":                             {"exec sleep 1000", time.Millisecond, false, true},
		"ends while there is something to do": {"exec sleep 1000", time.Minute, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			wake, theirs, elsewhere := pipe(t), group(t), group(t)
			if c.wake {
				_ = wake[1].Close()
			}
			procs := func(d directory) string { return filepath.Join(d.Name(), "cgroup.procs") }
			ended, err := outcome(t, &Pair{
				Parent: Cmd{
					Path: "/bin/sh", Mask: new(uint64), Group: group(t), Env: []string{"PATH=/usr/bin:/bin"},
					Argv: []string{"sh", "-c", `kill -9 $1 $(cat $2 $3)`, "parent", PIDDigits, procs(theirs), procs(elsewhere)},
				},
				Main: Cmd{Path: "/bin/sh", Mask: new(uint64), Argv: []string{"sh", "-c", c.script}, Env: []string{"ELSEWHERE=" + procs(elsewhere)}, Group: theirs},
				PID:  4, Linger: c.linger, Wake: int(wake[0].Fd()),
			})
			if err != nil || (ended == nil) != c.executes || ended != nil && ended.ExitStatus() != 3 {
				t.Errorf("ended %v (%v), want status 3: %v", ended, err, !c.executes)
			}
		})
	}
}

// A signal that would end the parent before it can take any is another one, which waits.
func TestPairExchangesSignals(t *testing.T) {
	// no other process: sh unblocks all signals before it starts one
	const script = `while read key value; do test $key = ShdPnd: && echo $value; done </proc/$$/status >"$OUT"; while read pid; do kill -9 $pid; done <$2`
	file, theirs, blocked := filepath.Join(t.TempDir(), "out"), group(t), uint64(1)<<(unix.SIGUSR1-1)
	_, err := outcome(t, &Pair{
		Parent: Cmd{
			Path: "/bin/sh", Mask: &blocked, Group: group(t), Env: []string{"PATH=/usr/bin:/bin", "OUT=" + file},
			Argv: []string{"sh", "-c", script, "parent", PIDDigits, filepath.Join(theirs.Name(), "cgroup.procs")},
		},
		Main: Cmd{Path: "/bin/sh", Mask: new(uint64), Argv: []string{"sh", "-c", "kill -TERM $PPID; sleep 1000 & exit 3"}, Group: theirs},
		PID:  4, Linger: time.Minute, Wake: int(pipe(t)[0].Fd()), Stop: unix.SIGUSR1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); strings.TrimSpace(string(got)) != fmt.Sprintf("%016x", blocked) {
		t.Errorf("pending: %q (%v), want SIGUSR1 alone", got, err)
	}
}

func pipe(t *testing.T) (ends [2]*os.File) {
	t.Helper()
	var err error
	if ends[0], ends[1], err = os.Pipe(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ends[0].Close()
		_ = ends[1].Close()
	})
	return ends
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
