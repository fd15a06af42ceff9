// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
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
	f.until(want, func(line string) bool { return strings.HasSuffix(line, ": "+want) })
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

// An event is a line of `logs --json`, which is journalctl's.
type event struct {
	Event       string `json:"MCPSCOPE_EVENT"`
	ID          string `json:"MCPSCOPE_ID"`
	Name        string `json:"MCPSCOPE_NAME"`
	Backend     string `json:"MCPSCOPE_BACKEND"`
	UID         string `json:"_UID"`
	Cause       string `json:"MCPSCOPE_CAUSE"`
	Stderr      string `json:"MCPSCOPE_STDERR"`
	ExitSignal  string `json:"MCPSCOPE_EXIT_SIGNAL"`
	ExitStatus  string `json:"MCPSCOPE_EXIT_STATUS"`
	KilledTotal string `json:"MCPSCOPE_KILLED_TOTAL"`
	OOMKills    string `json:"MCPSCOPE_OOM_KILLS"`
	ClientPID   string `json:"MCPSCOPE_CLIENT_PID"`
	Message     string `json:"MESSAGE"`
	Priority    string `json:"PRIORITY"`
}

func eventIn(t *testing.T, line string) (e event) {
	t.Helper()
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Errorf("%q: %v", line, err)
	}
	return e
}

// A tail is the events of the servers of one name.
type tail struct {
	*follower
	name string
}

func (b backend) events(t *testing.T, name string) tail {
	line := []string{"logs", "--follow", "--since", "1h", "--json"}
	if b.user == host.Root {
		line = append(line, "--all-users")
	}
	return tail{follow(t, b.command(t, line...)), name}
}

// event waits for the next one of a kind.
func (f tail) event(kind string) (e event) {
	f.t.Helper()
	f.until(kind, func(line string) bool {
		e = eventIn(f.t, line)
		return e.Name == f.name && e.Event == kind
	})
	return e
}
