// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Trial is the result of one backend.
type Trial struct {
	Backend      protocol.Backend `json:"backend"`
	Works        bool             `json:"works"`
	Milliseconds int64            `json:"milliseconds"` // of run as a whole
	Group        bool             `json:"group"`        // the server has its own control group
	Cgroup       string           `json:"cgroup,omitempty"`
	Controllers  []string         `json:"controllers,omitempty"`
	Reason       string           `json:"reason,omitempty"`
	Remedy       string           `json:"remedy,omitempty"`
}

// found is the output of the probe.
type found struct {
	Cgroup      string   `json:"cgroup"`
	Controllers []string `json:"controllers"`
}

// trialWithin is longer than the timeouts of run: five seconds for a bus, two for a scope, one for a report.
const trialWithin = 10 * time.Second

// tryBackend runs a server with the backend. To create only a group would be faster and prove less: the fork
// into it, the lock or the removal can fail, too. run stops the server if doctor is killed.
func tryBackend(by programs, b protocol.Backend) Trial {
	t := Trial{Backend: b}
	began := time.Now()
	out, err := t.run(by)
	t.Milliseconds = time.Since(began).Milliseconds()
	t.read(out)
	switch {
	case t.Works || t.Reason != "":
	case err != nil:
		t.Reason, t.Remedy = err.Error(), cli.Hint(b, err)
	default:
		t.Reason = "mcpscope run wrote no report"
	}
	return t
}

// run returns the line of the probe and the report. It uses one pipe for both, because descriptors may be
// scarce.
func (t *Trial) run(by programs) ([]byte, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	stdio := []*os.File{null, theirs, null}
	launcher, err := by.start(t.Backend, stdio, "--report", "fd:1", "--", by.server, "probe")
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
	_, _ = launcher.Wait() // the report says more than the status
	return out, err
}

// read parses the line of the probe and the report.
func (t *Trial) read(out []byte) {
	for line := range bytes.Lines(out) {
		var result struct {
			found
			Ended       time.Time `json:"ended"`
			Error, Hint string
		}
		switch err := json.Unmarshal(line, &result); {
		case err != nil:
		case !result.Ended.IsZero():
			t.Works, t.Reason, t.Remedy = result.Error == "", result.Error, result.Hint
		default:
			own, _ := ownGroup()
			if t.Cgroup, t.Group = result.Cgroup, result.Cgroup != own; t.Group {
				t.Controllers = result.Controllers // otherwise they are those of the client
			}
		}
	}
}

// Probe is the server of a trial.
func Probe(_ []string, io cli.Stdio) int {
	var f found
	f.Cgroup, f.Controllers = ownGroup()
	if err := json.NewEncoder(io.Out).Encode(f); err != nil {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// start runs mcpscope run with flags that override settings files: require would refuse tree.
func (p programs) start(b protocol.Backend, files []*os.File, args ...string) (*os.Process, error) {
	flags := []string{"mcpscope", "run", "--require=false", "--name", "doctor", "--backend", string(b)}
	argv := append(flags, args...)
	env := settings.ServerEnvironment(os.Environ())
	return os.StartProcess(p.runner, argv, &os.ProcAttr{Env: env, Files: files})
}
