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

// Trial is the result of one backend.
type Trial struct {
	Backend      protocol.Backend `json:"backend"`
	Works        bool             `json:"works"`
	Milliseconds int64            `json:"milliseconds"`    // of run as a whole
	Early        bool             `json:"early,omitempty"` // with auto, the server starts before its scope
	Group        bool             `json:"group"`           // the server has its own control group
	Cgroup       string           `json:"cgroup,omitempty"`
	Controllers  []string         `json:"controllers,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	Remedy       string           `json:"remedy,omitempty"`
	Name         string           `json:"-"` // of the server
}

// found is the output of the probe.
type found struct {
	Cgroup      string   `json:"cgroup"`
	Controllers []string `json:"controllers"`
}

// trialWithin is longer than the timeouts of run: five seconds for a bus, two for a scope, one for a report.
const trialWithin = 10 * time.Second

// tryBackend runs a server with the backend. To create only a group would be faster and prove less: the fork
// into it, the lock or the removal can fail, too. run reports the errors, and stops the server if doctor is
// killed.
func tryBackend(by programs, b protocol.Backend) Trial {
	t := Trial{Backend: b, Name: "doctor"}
	began := time.Now()
	out, err := t.Run(by)
	t.Milliseconds = time.Since(began).Milliseconds()
	t.Read(out)
	switch {
	case err != nil && t.Reason == "": // run did not start or report in time
		t.Reason, t.Remedy = err.Error(), cli.Hint(b, err)
	case !t.Works && t.Reason == "":
		t.Reason = "mcpscope run printed no report"
	}
	t.Works = t.Works && t.Reason == ""
	t.Early = t.Works && backend.StartsEarly(b)
	return t
}

// Run returns the output: the line of the probe and the report, or the failure of run. It uses one pipe for
// both, because descriptors may be scarce.
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
	flags = append(flags, "--report", "fd:1", "--", by.server, "probe")
	argv := trialRun(t.Backend, t.Name, flags...)
	launcher, err := os.StartProcess(by.runner, argv, &os.ProcAttr{
		Env: settings.ServerEnvironment(), Files: []*os.File{null, theirs, theirs},
	})
	_ = theirs.Close()
	if err != nil {
		return nil, err
	}
	_ = ours.SetReadDeadline(time.Now().Add(trialWithin)) // a pipe has deadlines
	out, err := io.ReadAll(ours)
	if err != nil {
		_ = launcher.Kill() // not reaped yet, so the pid is valid
		err = fmt.Errorf("mcpscope run did not exit within %v", trialWithin)
	}
	_, _ = launcher.Wait() // the output says more than the status
	return out, err
}

// Read parses the line of the probe, the report and the lines of a failure.
func (t *Trial) Read(out []byte) {
	for line := range bytes.Lines(out) {
		var result struct {
			found
			Backend protocol.Backend `json:"backend"`
			Ended   time.Time        `json:"ended"`
		}
		text := strings.TrimPrefix(strings.TrimSpace(string(line)), "mcpscope: ")
		hint, isHint := strings.CutPrefix(text, "hint: ")
		switch err := json.Unmarshal(line, &result); {
		case err == nil && result.Backend == t.Backend && !result.Ended.IsZero():
			t.Works = true
		case err == nil:
			own, _ := hostinfo.OwnGroup()
			if t.Cgroup, t.Group = result.Cgroup, result.Cgroup != own; t.Group {
				t.Controllers = result.Controllers // otherwise they are those of the client
			}
		case isHint:
			t.Remedy = hint
		case t.Reason == "": // the first line is the best
			t.Reason = strings.TrimPrefix(text, fmt.Sprintf("cannot contain %q: ", t.Name))
		}
	}
}

// Probe is the server of a trial.
func Probe(_ []string, io cli.Stdio) int {
	var f found
	f.Cgroup, f.Controllers = hostinfo.OwnGroup()
	if err := json.NewEncoder(io.Out).Encode(f); err != nil {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// trialRun returns a command line whose flags override settings files: quiet would hide errors, and require
// would refuse tree.
func trialRun(b protocol.Backend, name string, args ...string) []string {
	return append([]string{"mcpscope", "run", "-q=false", "-v=false", "--require=false",
		"--backend", string(b), "--name", name}, args...)
}
