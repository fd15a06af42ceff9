// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/test/message"
)

// The status is the server's own. A command that cannot be executed has the statuses of a shell.
func TestExitStatuses(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "mcpscope")
	build(t, program)
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	const bySignal = -1 // of exec.Cmd
	for _, c := range []struct {
		args   []string
		status int
		err    string
	}{
		{[]string{"/bin/sh", "-c", "exit 0"}, 0, ""},
		{[]string{"/bin/sh", "-c", "exit 7"}, 7, ""},
		{[]string{"/bin/sh", "-c", "kill -TERM $$"}, bySignal, ""},
		{[]string{dir + "/nosuch"}, cli.ExitNotFound, dir + "/nosuch"},
		{[]string{text}, cli.ExitNotRunnable, text},
		{[]string{script}, cli.ExitNotFound, script},
	} {
		for _, command := range []string{"run", "gateway"} {
			s := start(t, program, append([]string{command, "--"}, c.args...)...)
			if s.status != c.status || s.out != "" || !strings.Contains(s.err, c.err) {
				t.Errorf("%s %q: %+v, want %d, %s", command, c.args, s, c.status, c.err)
			}
		}
	}
}

// A server that is not contained, or of which a process stays, is no success, whatever its own status.
func TestEndsThatAreNotTheServersOwn(t *testing.T) {
	cannot := func(status int, word, hint string) message.Message {
		return message.Message{Status: status, Begin: "cannot ", Word: word, Hint: hint}
	}
	for name, c := range map[string]struct {
		outcome helper.Outcome
		err     error
		want    message.Message
	}{
		"a member stays": {helper.Outcome{Known: true, Stuck: []string{"cp[7]", "dd[8]"}}, nil, cannot(cli.ExitOwnFailure, "cp[7], dd[8]", "removes the group then")},
		"no status":      {helper.Outcome{}, nil, cannot(cli.ExitOwnFailure, "exit status", "")},
		"not contained":  {helper.Outcome{}, unix.EMFILE, cannot(cli.ExitOwnFailure, "too many open files", "ulimit -n")},
		"not executed":   {helper.Outcome{}, &protocol.CommandError{Command: "/bin/git", Errno: unix.ENOEXEC}, cannot(cli.ExitNotRunnable, "exec format", "")},
	} {
		got := printedEnd(c.outcome, c.err)
		if problem := c.want.Problem(got.status, got.out, got.err); problem != "" || !strings.Contains(got.err, `"git"`) {
			t.Errorf("%s: %s", name, problem)
		}
	}
}

// The status of a server is that of its run, and the notes of its guard are printed as they are.
func TestEndsOfAServer(t *testing.T) {
	if got := printedEnd(helper.Outcome{Known: true, Status: 3 << 8}, nil); got != (said{status: 3}) {
		t.Errorf("its status: %+v", got)
	}
	const notes = "mcpscope: stopped 2 processes\n"
	if got := printedEnd(helper.Outcome{Known: true, Notes: notes}, nil); got != (said{err: notes}) {
		t.Errorf("notes: %+v", got)
	}
}

// printedEnd returns what run prints at the end of the server git.
func printedEnd(outcome helper.Outcome, err error) said {
	config := protocol.NewConfig()
	config.Facts.Name = "git"
	config.Argv = []string{"git"}
	config.Output.Report = -1
	var out, errs bytes.Buffer
	p := cli.Printer{Stdio: cli.Stdio{Out: &out, Err: &errs}, Verbose: true}
	status := printEnd(&p, config, outcome, err)
	return said{status, out.String(), errs.String()}
}

// aRun is a run of the server git, which writes its report to a file.
func aRun(t *testing.T, errs *bytes.Buffer) (v *invocation, report string) {
	t.Helper()
	report = filepath.Join(t.TempDir(), "report")
	fd, err := openReport(report)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	values := settings.Defaults()
	values.Name = "git"
	v = &invocation{
		Printer: cli.Printer{Stdio: cli.Stdio{Err: errs}, Verbose: true},
		values:  values,
		command: len(os.Args), // ours has none
		server:  &launcher.Server{Name: "git", Output: launcher.Output{Report: fd}},
	}
	return v, report
}

// A server that was not started is an error on stderr and in the report.
func TestServersThatAreNotStarted(t *testing.T) {
	largest := []admission.Use{{Name: "time", ID: "k3x9w2ab", Bytes: 3 << 30, IsSum: true}, {Name: "docs", ID: "a2b3c4d5", Bytes: 1 << 30}}
	short := admission.ShortError{Free: admission.Free{Bytes: 1 << 30, Group: "/user.slice"}, MinFree: 2 << 30, Within: 10 * time.Second}
	shortWithServers := short
	shortWithServers.Largest = largest
	for _, c := range []struct {
		err        error
		word, hint string
	}{
		{unix.EMFILE, "too many open files", "ulimit -n"},
		{&short, "--min-free", ""},
		{&short, "1.0G of memory is free below the limit of /user.slice", ""},
		{&shortWithServers, "time (k3x9w2ab) ~3.0G, docs (a2b3c4d5) 1.0G", ""},
		{&shortWithServers, "mcpscope stop k3x9w2ab", ""},
		{admission.ErrClientExited, admission.ErrClientExited.Error(), ""},
	} {
		var errs bytes.Buffer
		v, report := aRun(t, &errs)
		want := message.Message{Status: cli.ExitOwnFailure, Begin: "cannot ", Word: c.word, Hint: c.hint}
		status := v.failRun(c.err, false)
		if problem := want.Problem(status, "", errs.String()); problem != "" || !strings.Contains(errs.String(), `"git"`) {
			t.Errorf("%v: %s", c.err, problem)
		}
		line, err := os.ReadFile(report)
		if err != nil || !strings.Contains(string(line), `"error":"`) {
			t.Errorf("report of %v: %q, %v", c.err, line, err)
		}
	}
}

// A weaker containment and a wait are notes of --verbose.
func TestNotesOfAStart(t *testing.T) {
	var errs bytes.Buffer
	v, _ := aRun(t, &errs)
	v.values.MinFree = 2 << 30
	v.tellWeaker(errors.New("there is no cgroup"))
	weaker := message.Message{Begin: `"git" `, Word: "weaker backend tree: there is no cgroup", Hint: "mcpscope doctor"}
	if problem := weaker.Problem(cli.ExitOK, "", errs.String()); problem != "" {
		t.Error(problem)
	}
	errs.Reset()
	v.noteWait(admission.Free{Bytes: 1 << 30})
	wait := message.Message{Begin: `note: "git" `, Word: "2.0G"}
	if problem := wait.Problem(cli.ExitOK, "", errs.String()); problem != "" {
		t.Error(problem)
	}
	errs.Reset()
	v.Verbose = false
	v.noteWait(admission.Free{Bytes: 1 << 30})
	if errs.String() != "" {
		t.Errorf("without --verbose: %s", errs.String())
	}
}
