// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A follower is a command that prints lines until it is interrupted.
type follower struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	lines  chan string // closed at its end
	seen   []string
}

func follow(t *testing.T, cmd *exec.Cmd) *follower {
	t.Helper()
	f := &follower{t: t, cmd: cmd, lines: make(chan string, 4096)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = &f.stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.lines)
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			f.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // some tests have ended it
		_ = cmd.Wait()
	})
	return f
}

// until waits for a line, and returns it.
func (f *follower) until(what string, is func(line string) bool) string {
	f.t.Helper()
	limit := time.After(patience)
	for {
		select {
		case line, more := <-f.lines:
			if !more {
				f.t.Fatalf("%q ended without %s; stderr: %s; it said %q", f.cmd.Args, what, f.stderr.String(), f.seen)
			}
			f.seen = append(f.seen, line)
			if is(line) {
				return line
			}
		case <-limit:
			f.t.Fatalf("%q does not say %s, but %q", f.cmd.Args, what, f.seen)
		}
	}
}

// interrupt is ^C, after which it ends by that signal and with nothing on stderr.
func (f *follower) interrupt() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(unix.SIGINT); err != nil {
		f.t.Error(err)
	}
	f.wantEnd(unix.SIGINT)
}

func (f *follower) wantEnd(by unix.Signal) {
	f.t.Helper()
	ended := make(chan struct{})
	go func() {
		_ = f.cmd.Wait() // how, is looked at
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		f.t.Fatalf("%q does not end", f.cmd.Args)
	}
	if status := f.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != by {
		f.t.Errorf("%q ended with %v, want %v", f.cmd.Args, f.cmd.ProcessState, by)
	}
	if f.stderr.Len() > 0 {
		f.t.Errorf("%q says %s", f.cmd.Args, f.stderr.String())
	}
}

// An event is a line of `events --json`.
type event struct {
	Version         int
	Time            time.Time
	Event, ID, Name string
	UID             int
	Backend         string
	Client          struct {
		PID  int
		Name string
	}
	Stderr        string
	Cause, Signal string
	ExitStatus    *int   `json:"exit_status"`
	ExitSignal    string `json:"exit_signal"`
	Seconds       float64
	CPU           float64 `json:"cpu_seconds"`
	Killed        []string
	KilledTotal   int `json:"killed_total"`
	OOMKills      int `json:"oom_kills"`
	Note          string
}

// events follows those of servers of a name.
func (b backend) events(t *testing.T, name string) *follower {
	return follow(t, b.command(t, "events", "--follow", "--since", "1h", "--json", name))
}

// event waits for the next one of a kind.
func (f *follower) event(kind string) event {
	f.t.Helper()
	var e event
	f.until(kind, func(line string) bool {
		e = event{}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Version != 1 {
			f.t.Errorf("%q: %v", line, err)
		}
		return e.Event == kind
	})
	return e
}

// without fails the test for an event of one of the kinds.
func (f *follower) without(kinds ...string) {
	f.t.Helper()
	for _, line := range f.seen {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil || slices.Contains(kinds, e.Event) {
			f.t.Errorf("unwanted: %s (%v)", line, err)
		}
	}
}
