// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/host"
)

// patience is for what happens at once, on a machine under load.
const patience = 60 * time.Second

// group is a shell's own: files there are what holds it.
const group = `g=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); `

// A server is one `mcpscope run` of a shell script.
type server struct {
	*escape.Talk
	t      *testing.T
	report *os.File
}

// start starts a server of that name with limits.
func (b backend) start(t *testing.T, name string, flags []string, script string) *server {
	t.Helper()
	args := append([]string{"run", "--name", name, "--backend", b.name, "--eof-grace", "300ms", "--term-grace", "300ms", "--report", "fd:3"}, flags...)
	cmd := b.command(t, append(args, "--", "sh", "-c", script)...)
	report, theirs := bed.Pipe(t)
	cmd.ExtraFiles = []*os.File{theirs}
	s := &server{escape.StartTalk(t, cmd, cmd.Start), t, report}
	_ = theirs.Close() // it has it
	return s
}

// wait is for a server that ends by itself.
func (s *server) wait() syscall.WaitStatus {
	s.t.Helper()
	process, err := escape.OpenProcess(s.Cmd.Process.Pid)
	if err != nil {
		s.t.Fatal(err)
	}
	defer process.Close()
	if !process.Ended(patience) {
		s.t.Fatal("it does not end")
	}
	_ = s.Cmd.Wait() // how, is returned
	return s.Cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// end closes stdin.
func (s *server) end() syscall.WaitStatus {
	s.t.Helper()
	_ = s.Stdin.Close() // whether it reads or not
	return s.wait()
}

// A report is what these tests read of one.
type report struct {
	ID, Name, Backend, Cause string
	ExitStatus               *int   `json:"exit_status"`
	ExitSignal               string `json:"exit_signal"`
	Limits                   map[string]string
	OutOfMemory              struct {
		Kills   int    `json:"oom_kills"`
		Max     uint64 `json:"memory_max_bytes"`
		Peak    uint64 `json:"memory_peak_bytes"`
		Biggest []struct {
			PID   int
			Name  string
			Bytes uint64
		}
	} `json:"out_of_memory"`
	PIDsRefused struct {
		Times int
		Max   int `json:"pids_max"`
	} `json:"pids_refused"`
	Pressure map[string]struct {
		Some float64 `json:"some_seconds"`
	}
	Notes []string
}

// told is the report of a server that has ended.
func (s *server) told() report {
	s.t.Helper()
	var r report
	if err := json.NewDecoder(s.report).Decode(&r); err != nil {
		s.t.Fatalf("no report: %v; stderr: %s", err, s.Said())
	}
	return r
}

// succeed runs a command that must.
func (b backend) succeed(t *testing.T, args ...string) string {
	t.Helper()
	out, stderr, status := b.result(t, args...)
	if status != 0 || stderr != "" {
		t.Errorf("%q: status %d; stderr: %s", args, status, stderr)
	}
	return out
}

func (b backend) result(t *testing.T, args ...string) (out, stderr string, status int) {
	t.Helper()
	b.wrap = nil // an operator is not in the client's unit
	cmd := b.command(t, args...)
	var said, errors strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &errors
	_ = cmd.Run() // how, is returned
	return said.String(), errors.String(), cmd.ProcessState.ExitCode()
}

// journaled tells whether there is a journal, and controllers.
func journaled() bool { return suite != "" && !hybrid && !strings.HasSuffix(suite, "+init") }

// events are those of a kind. journald has them when it has been asked to synchronize.
func (b backend) events(t *testing.T, name, kind string) string {
	t.Helper()
	if out, err := exec.Command("journalctl", "--sync").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return lineWith(backend{user: host.Root}.succeed(t, "events", "--json", "--all-users", name), `"event":"`+kind+`"`)
}

// lineWith is the first line that has a text in it.
func lineWith(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
