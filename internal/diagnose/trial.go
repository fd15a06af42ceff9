// SPDX-License-Identifier: Apache-2.0

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
)

// Trial is the result of one backend.
type Trial struct {
	Backend      protocol.Backend `json:"backend"`
	Works        bool             `json:"works"`
	Milliseconds int64            `json:"milliseconds"` // of run as a whole
	Group        bool             `json:"group"`        // the server has its own control group
	probed
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"` // of the reason, or for missing controllers
}

// probed is the output of the probe: its group, and the controllers of the group above it.
type probed struct {
	Cgroup      string   `json:"cgroup,omitempty"`
	Controllers []string `json:"controllers,omitempty"`
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
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	stdio := []*os.File{nil, theirs, nil}
	launcher, err := by.start(t.Backend, stdio, "--report", "fd:1", "--", by.server, ProbeCommand)
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
	_, _ = launcher.Wait() // the report has more than the status
	return out, err
}

// read parses the line of the probe and the report.
func (t *Trial) read(out []byte) {
	for line := range bytes.Lines(out) {
		var found struct {
			probed
			Ended       time.Time
			Error, Hint string
		}
		switch err := json.Unmarshal(line, &found); {
		case err != nil:
		case !found.Ended.IsZero():
			t.Works, t.Reason, t.Remedy = found.Error == "", found.Error, found.Hint
		default:
			t.probed, t.Group = found.probed, found.Cgroup != ownGroup().Cgroup
			if !t.Group {
				t.Controllers = nil // they are those of the client
			}
		}
	}
}

// ProbeCommand is the server of a trial.
const ProbeCommand = "probe"

// Probe prints its group, and ends with its stdin.
func Probe(_ []string, to cli.Stdio) int {
	_ = json.NewEncoder(to.Out).Encode(ownGroup()) // cli.Output reports it
	_, _ = io.Copy(io.Discard, os.Stdin)           // stdin may be closed
	return cli.ExitOK
}
