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
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
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
		{[]string{dir + "/nosuch"}, cli.ExitNotFound, `mcpscope: cannot run "` + dir + `/nosuch": no such file or directory`},
		{[]string{text}, cli.ExitNotRunnable, `mcpscope: cannot run "` + text + `": permission denied`},
		{[]string{script}, cli.ExitNotFound, `mcpscope: cannot run "` + script + `": no such file or directory`},
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
	for name, c := range map[string]struct {
		outcome brain.Outcome
		err     error
		want    said
	}{
		"its status": {brain.Outcome{Known: true, Status: 3 << 8}, nil, said{status: 3}},
		"notes":      {brain.Outcome{Known: true, Notes: "mcpscope: stopped 2 processes\n"}, nil, said{err: "mcpscope: stopped 2 processes\n"}},
		"a member stays": {brain.Outcome{Known: true, Stuck: []string{"cp[7]", "dd[8]"}}, nil, said{
			status: cli.ExitOwnFailure,
			err: "mcpscope: cannot stop all of \"git\": cp[7], dd[8]\n" +
				"mcpscope: hint: mcpscope waits for it, and removes the group then\n",
		}},
		"no status": {brain.Outcome{}, nil, said{
			status: cli.ExitOwnFailure, err: "mcpscope: cannot find the exit status of \"git\"\n",
		}},
		"not contained": {brain.Outcome{}, unix.EMFILE, said{
			status: cli.ExitOwnFailure,
			err: "mcpscope: cannot contain \"git\": too many open files\n" +
				"mcpscope: hint: raise the limit of open files (ulimit -n)\n",
		}},
		"not executed": {brain.Outcome{}, &protocol.CommandError{Command: "/bin/git", Errno: unix.ENOEXEC}, said{
			status: cli.ExitNotRunnable, err: "mcpscope: cannot run \"git\": exec format error\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config := protocol.NewConfig()
			config.Name = "git"
			config.Argv = []string{"git"}
			config.Report = -1
			var out, errs bytes.Buffer
			p := cli.Printer{Stdio: cli.Stdio{Out: &out, Err: &errs}, Verbose: true}
			status := printEnd(&p, config, c.outcome, c.err)
			if got := (said{status, out.String(), errs.String()}); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
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
		Printer:  cli.Printer{Stdio: cli.Stdio{Err: errs}, Verbose: true},
		values:   values,
		operands: []string{"git"},
		server:   &launcher.Server{Name: "git", Report: fd},
	}
	return v, report
}

// A server that was not started is an error on stderr and in the report.
func TestServersThatAreNotStarted(t *testing.T) {
	largest := []admission.Use{{Name: "time", ID: "k3x9w2ab", Bytes: 3 << 30, IsSum: true}, {Name: "docs", ID: "a2b3c4d5", Bytes: 1 << 30}}
	short := admission.ShortError{Free: admission.Free{Bytes: 1 << 30, Group: "/user.slice"}, MinFree: 2 << 30, Within: 10 * time.Second}
	shortWithServers := short
	shortWithServers.Largest = largest
	const free = `cannot start "git": after 10s only 1.0G of memory is free below the limit of /user.slice, and min-free is 2.0G; `
	for want, err := range map[string]error{
		`cannot contain "git": too many open files` + "\nmcpscope: hint: raise the limit of open files (ulimit -n)": unix.EMFILE,
		free + "you have no running servers to stop: give a smaller --min-free":                                     &short,
		free + "your largest servers are time (k3x9w2ab) ~3.0G, docs (a2b3c4d5) 1.0G: " +
			"mcpscope stop k3x9w2ab, or give a smaller --min-free": &shortWithServers,
		`cannot start "git": ` + admission.ErrClientExited.Error(): admission.ErrClientExited,
	} {
		var errs bytes.Buffer
		v, report := aRun(t, &errs)
		status := v.failRun(err, false)
		if status != cli.ExitOwnFailure || errs.String() != "mcpscope: "+want+"\n" {
			t.Errorf("status %d, %s, want %s", status, errs.String(), want)
		}
		line, errRead := os.ReadFile(report)
		if errRead != nil || !strings.Contains(string(line), `"error":"`) {
			t.Errorf("report of %q: %q, %v", want, line, errRead)
		}
	}
}

// A weaker containment and a wait are notes of --verbose.
func TestNotesOfAStart(t *testing.T) {
	var errs bytes.Buffer
	v, _ := aRun(t, &errs)
	v.values.MinFree = 2 << 30
	v.tellWeaker(errors.New("there is no cgroup"))
	v.noteWait(admission.Free{Bytes: 1 << 30})
	const want = "mcpscope: \"git\" runs with the weaker backend tree: there is no cgroup\n" +
		"mcpscope: hint: mcpscope doctor; --require starts nothing instead\n" +
		"mcpscope: note: \"git\" waits for 2.0G of free memory: now 1.0G of memory is free\n"
	if errs.String() != want {
		t.Errorf("%s, want %s", errs.String(), want)
	}
	errs.Reset()
	v.Verbose = false
	v.noteWait(admission.Free{Bytes: 1 << 30})
	if errs.String() != "" {
		t.Errorf("without --verbose: %s", errs.String())
	}
}
