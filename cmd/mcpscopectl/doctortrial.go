// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/hostinfo"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// trial is one backend, tried.
type trial struct {
	Backend      protocol.Backend `json:"backend"`
	Works        bool             `json:"works"`
	Milliseconds int64            `json:"milliseconds"`    // from the start of run to its end
	Early        bool             `json:"early,omitempty"` // unless asked for by name, a server starts before there is a scope
	Group        bool             `json:"group"`           // a control group of the server's own
	Cgroup       string           `json:"cgroup,omitempty"`
	Controllers  []string         `json:"controllers,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	Remedy       string           `json:"remedy,omitempty"`
	name         string           // of the server
}

// found is what the probe says from inside.
type found struct {
	Cgroup      string   `json:"cgroup"`
	Controllers []string `json:"controllers"`
}

// trialWithin is longer than run takes to give a backend up: five seconds for a bus that
// does not answer, two for a scope, a second for a report that nobody reads.
const trialWithin = 10 * time.Second

// tryBackend runs a server in the backend, by the command that clients use. To make a
// group in this process, and leave it at that, would be quicker and prove less: what
// may fail is also the fork into it, the lock, the handing over, the removal. What goes
// wrong is said by run itself, and what is left when we are killed halfway, run ends.
func tryBackend(by programs, b protocol.Backend) trial {
	t := trial{Backend: b, name: "doctor"}
	began := time.Now()
	out, err := t.run(by)
	t.Milliseconds = time.Since(began).Milliseconds()
	t.read(out)
	switch {
	case err != nil && t.Reason == "": // run was not started, or said nothing in time
		t.Reason, t.Remedy = err.Error(), cli.Hint(b, err)
	case !t.Works && t.Reason == "":
		t.Reason = "run said nothing"
	}
	t.Works = t.Works && t.Reason == ""
	t.Early = t.Works && backend.StartsEarly(b)
	return t
}

// run returns all that was written: the probe's line and the report of success, or
// run's own lines of failure. One pipe for all of it, because descriptors may be scarce.
func (t *trial) run(by programs, flags ...string) ([]byte, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	argv := append(trialRun(t.Backend, t.name, "--report", "fd:1"), append(flags, "--", by.server, "probe")...)
	launcher, err := os.StartProcess(by.runner, argv, &os.ProcAttr{Env: settings.ServerEnvironment(), Files: []*os.File{null, theirs, theirs}})
	_ = theirs.Close() // the read ends when all of theirs have
	if err != nil {
		return nil, err
	}
	_ = ours.SetReadDeadline(time.Now().Add(trialWithin)) // a pipe has deadlines
	out, err := io.ReadAll(ours)
	if err != nil {
		_ = launcher.Kill() // not waited for yet, so it is still that process
		err = fmt.Errorf("no end within %v", trialWithin)
	}
	_, _ = launcher.Wait() // what it said tells more than its status
	return out, err
}

func (t *trial) read(out []byte) {
	for line := range bytes.Lines(out) {
		text := strings.TrimSpace(string(line))
		if text == "" {
			continue
		}
		if hint, ok := strings.CutPrefix(text, "mcpscope: hint: "); ok {
			t.Remedy = hint
			continue
		}
		if failure, ok := strings.CutPrefix(text, "mcpscope: "); ok {
			t.Reason = strings.TrimPrefix(failure, fmt.Sprintf("cannot contain %q: ", t.name))
			continue
		}
		t.readLine(line)
	}
}

// readLine takes the probe's line and the report, which have no field in common.
func (t *trial) readLine(line []byte) {
	var says struct {
		found
		Backend protocol.Backend `json:"backend"`
		Ended   time.Time        `json:"ended"`
	}
	switch err := json.Unmarshal(line, &says); {
	case err != nil && t.Reason == "":
		t.Reason = string(bytes.TrimSpace(line)) // e.g. of a Go runtime that could not start
	case err != nil: // what follows explains less
	case says.Backend == t.Backend && !says.Ended.IsZero():
		t.Works = true
	default:
		own, _ := hostinfo.OwnGroup()
		if t.Cgroup, t.Group = says.Cgroup, says.Cgroup != own; t.Group {
			t.Controllers = says.Controllers // otherwise they are for the client too
		}
	}
}

// probeCommand is the server that doctor runs.
func probeCommand(_ []string, io cli.Stdio) int {
	var f found
	f.Cgroup, f.Controllers = hostinfo.OwnGroup()
	if err := json.NewEncoder(io.Out).Encode(f); err != nil {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// trialRun is the command line of a run, with flags against what a configuration file may say: a quiet
// run would not say what is wrong, and one that refuses tree not that it works.
func trialRun(b protocol.Backend, name string, args ...string) []string {
	return append([]string{"mcpscope", "run", "-q=false", "-v=false", "--require=false", "--strict-config=false",
		"--backend", string(b), "--name", name}, args...)
}
