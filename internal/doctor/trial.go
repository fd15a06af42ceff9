// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mcpscope/mcpscope/internal/advice"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Trial is the result of one backend.
type Trial struct {
	Backend      names.Backend `json:"backend"`
	Works        bool          `json:"works"`
	Milliseconds int64         `json:"milliseconds"` // of run as a whole
	Group        bool          `json:"group"`        // the server has its own control group
	Position
	Reason string `json:"reason,omitempty"`
	Remedy string `json:"remedy,omitempty"` // of the reason, or for missing controllers
}

// trialWithin is longer than the timeouts of run: five seconds for a bus, two for a scope, one for a report.
const trialWithin = 10 * time.Second

// tryBackend runs a server with the backend. To create only a group would be faster and prove less: the fork
// into it, the lock or the removal can fail, too. run stops the server if doctor is killed.
func tryBackend(installed Programs, b names.Backend) Trial {
	t := Trial{Backend: b}
	began := time.Now()
	out, err := installed.runProbe(b)
	t.Milliseconds = time.Since(began).Milliseconds()
	t.read(out, OwnPosition().Cgroup)
	switch {
	case t.Works || t.Reason != "":
	case err != nil:
		t.Reason = err.Error()
		t.Remedy = advice.Hint(b, err)
	default:
		t.Reason = "mcpscope run wrote no report"
	}
	return t
}

// runProbe returns the line of the probe and the report. It uses one pipe for both, because descriptors may
// be scarce.
func (p Programs) runProbe(b names.Backend) ([]byte, error) {
	output, err := newPipe()
	if err != nil {
		return nil, err
	}
	defer output.close()
	stdio := []*os.File{nil, output.write, nil}
	launcher, err := p.start(b, stdio, "--report", "fd:1", "--", p.tool, ProbeCommand)
	if err != nil {
		return nil, err
	}
	_ = output.write.Close()                                     // the launcher has a duplicate
	_ = output.read.SetReadDeadline(time.Now().Add(trialWithin)) // a pipe has deadlines
	text, err := io.ReadAll(output.read)
	if err != nil {
		_ = launcher.Kill() // not reaped yet, so the pid is valid
		err = fmt.Errorf("mcpscope run did not exit within %v", trialWithin)
	}
	_, _ = launcher.Wait() // the report has more than the status
	return text, err
}

// read parses the line of the probe and the report. clientGroup is the group of this process, which is the
// client of the trial.
func (t *Trial) read(out []byte, clientGroup string) {
	for line := range bytes.Lines(out) {
		var found struct {
			Position
			Ended       time.Time
			Error, Hint string
		}
		err := json.Unmarshal(line, &found)
		if err != nil { // it is of another program
			continue
		}
		isReport := !found.Ended.IsZero()
		if isReport {
			t.Works = found.Error == ""
			t.Reason = found.Error
			t.Remedy = found.Hint
			continue
		}
		t.Position = found.Position
		t.Group = found.Cgroup != clientGroup
		if !t.Group {
			t.Controllers = nil // they are those of the client
		}
	}
}
