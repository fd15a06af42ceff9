// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

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

// Trial is one backend, tried.
type Trial struct {
	Backend      protocol.Backend `json:"backend"`
	Works        bool             `json:"works"`
	Milliseconds int64            `json:"milliseconds"`    // from the start of run to its end
	Early        bool             `json:"early,omitempty"` // unless asked for by name, a server starts before there is a scope
	Group        bool             `json:"group"`           // a control group of the server's own
	Cgroup       string           `json:"cgroup,omitempty"`
	Controllers  []string         `json:"controllers,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	Remedy       string           `json:"remedy,omitempty"`
	Name         string           `json:"-"` // of the server
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
func tryBackend(by programs, b protocol.Backend) Trial {
	t := Trial{Backend: b, Name: "doctor"}
	began := time.Now()
	out, err := t.Run(by)
	t.Milliseconds = time.Since(began).Milliseconds()
	t.Read(out)
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

// Run returns all that was written: the probe's line and the report of success, or
// run's own lines of failure. One pipe for all of it, because descriptors may be scarce.
func (t *Trial) Run(by programs, flags ...string) ([]byte, error) {
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
	argv := append(trialRun(t.Backend, t.Name, "--report", "fd:1"), append(flags, "--", by.server, "probe")...)
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

// Read takes the probe's line, the report and the lines of a failure.
func (t *Trial) Read(out []byte) {
	for line := range bytes.Lines(out) {
		var said struct {
			found
			Backend protocol.Backend `json:"backend"`
			Ended   time.Time        `json:"ended"`
		}
		text := strings.TrimPrefix(strings.TrimSpace(string(line)), "mcpscope: ")
		hint, isHint := strings.CutPrefix(text, "hint: ")
		switch err := json.Unmarshal(line, &said); {
		case err == nil && said.Backend == t.Backend && !said.Ended.IsZero():
			t.Works = true
		case err == nil:
			own, _ := hostinfo.OwnGroup()
			if t.Cgroup, t.Group = said.Cgroup, said.Cgroup != own; t.Group {
				t.Controllers = said.Controllers // otherwise they are for the client too
			}
		case isHint:
			t.Remedy = hint
		case t.Reason == "": // what follows explains less
			t.Reason = strings.TrimPrefix(text, fmt.Sprintf("cannot contain %q: ", t.Name))
		}
	}
}

// Probe is the server that doctor runs.
func Probe(_ []string, io cli.Stdio) int {
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
	return append([]string{"mcpscope", "run", "-q=false", "-v=false", "--require=false",
		"--backend", string(b), "--name", name}, args...)
}
