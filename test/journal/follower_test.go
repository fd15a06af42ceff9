// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A follower is a command that prints lines until it is interrupted.
type follower struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // closed at its end
	seen  []string
}

func follow(t *testing.T, cmd *exec.Cmd) *follower {
	t.Helper()
	f := &follower{t: t, cmd: cmd, lines: make(chan string, 4096)}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
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
	limit := pace.After(escape.Patience)
	for {
		select {
		case line, more := <-f.lines:
			if !more {
				f.t.Fatalf("%q ended without %s; it said %q", f.cmd.Args, what, f.seen)
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

func (f *follower) line(want string) {
	f.t.Helper()
	f.until(want, func(line string) bool { return line == want })
}

// interrupt is ^C, after which it ends by that signal.
func (f *follower) interrupt() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(unix.SIGINT); err != nil {
		f.t.Error(err)
	}
	for range f.lines { // until its end
	}
	if err := f.cmd.Wait(); err == nil || err.Error() != "signal: interrupt" {
		f.t.Errorf("%q ended with %v", f.cmd.Args, err)
	}
}

// An event is a line of `events --json`.
type event struct {
	Version                  int
	Event, ID, Name, Backend string
	UID                      int
	Cause, Stderr            string
	ExitSignal               string `json:"exit_signal"`
	Killed                   []string
	KilledTotal              int `json:"killed_total"`
	OOMKills                 int `json:"oom_kills"`
	Client                   struct{ PID int }
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
