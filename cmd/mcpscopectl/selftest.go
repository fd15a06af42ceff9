// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/scope"
)

// attempt is one way to stay alive; the escapee plays it (selftestescape.go).
type attempt struct {
	name    string
	members int // that must have been there before the end
}

var attempts = []attempt{
	{"setsid", 2},      // a child in a session of its own
	{"double-fork", 2}, // re-parented
	{"ignore-term", 1},
	{"storm", 1 + stormChains}, // processes that start another and exit
	{"stop-parent", 1},         // SIGSTOP to the supervisor
	{"hold-stdout", 2},         // by a child, when the main process has exited
}

// The ways to end a server that clients use every day.
var ends = []string{"stdin-closed", "sigterm", "launcher-killed"}

// testCase is one attempt against one end.
type testCase struct {
	Escape    string  `json:"escape"`
	End       string  `json:"end"`
	Passed    bool    `json:"passed"`
	Processes int     `json:"processes"` // that were there
	Seconds   float64 `json:"seconds"`   // from the end until the last was gone
	Problem   string  `json:"problem,omitempty"`
	members   int     // that must be there
}

// testResult is the verdict.
type testResult struct {
	Backend scope.Backend `json:"backend"`
	Passed  bool          `json:"passed"`
	Seconds float64       `json:"seconds"`
	Cases   []testCase    `json:"cases"`
}

// enough is after which time a test that has failed need not go on: each survivor is
// waited for.
const enough = 15 * time.Second

// selftest tries each attempt against each end, one at a time, and tells each as it
// ends.
func selftest(by programs, b scope.Backend, tell func(testCase)) *testResult {
	began := time.Now()
	r := &testResult{Backend: b, Passed: true}
	for _, c := range testCases() {
		if !r.Passed && time.Since(began) > enough {
			break
		}
		if err := c.try(by, b); err != nil {
			c.Problem = err.Error()
		}
		c.Passed = c.Problem == ""
		r.Passed = r.Passed && c.Passed
		r.Cases = append(r.Cases, c)
		tell(c)
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

func testCases() []testCase {
	var all []testCase
	for _, a := range attempts {
		for _, end := range ends {
			all = append(all, testCase{Escape: a.name, End: end, members: a.members})
		}
	}
	return all
}

// try starts a bystander too, which nobody may touch.
func (c *testCase) try(by programs, b scope.Backend) error {
	beside, err := startBystander(by.server)
	if err != nil {
		return err
	}
	defer beside.end()
	s, err := startSubject(by, b, c.Escape)
	if err != nil {
		return err
	}
	defer s.close()
	c.Processes, err = s.awaitMembers(c.members)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.end(c.End); err != nil {
		return err
	}
	if err := s.awaitEnd(); err != nil {
		return err
	}
	c.Seconds = time.Since(began).Seconds()
	if !beside.alive() {
		return errors.New("a process beside it was ended too")
	}
	return nil
}

// bystander is a process like the members, with the same parent and process group as
// their launcher. It returns what it is told.
type bystander struct {
	exec.Cmd
	tell  io.WriteCloser
	hears io.ReadCloser
}

func startBystander(exe string) (b *bystander, err error) {
	b = &bystander{Cmd: exec.Cmd{Path: exe, Args: []string{"mcpscope", "escape", "bystander"}}}
	if b.tell, err = b.StdinPipe(); err != nil {
		return nil, err
	}
	if b.hears, err = b.StdoutPipe(); err != nil {
		_ = b.tell.Close() // the error that matters is the one we return
		return nil, err
	}
	return b, b.Start()
}

// alive asks it: that it has not been waited for proves nothing.
func (b *bystander) alive() bool {
	if _, err := b.tell.Write([]byte{'?'}); err != nil {
		return false
	}
	_ = b.hears.(*os.File).SetReadDeadline(time.Now().Add(startWithin)) // a pipe has deadlines
	n, _ := b.hears.Read(make([]byte, 1))
	return n == 1
}

// end lets it go, as our own death would.
func (b *bystander) end() {
	_ = b.tell.Close()
	_ = b.Wait() // that it is gone is all that matters
}

func (c testCase) print(p *paper) {
	verdict := p.colour(green, "ended")
	if !c.Passed {
		verdict = p.colour(red, "FAIL: ") + cli.OneLine(c.Problem)
	}
	p.printf("  %-15s %-15s %5.2f s  %s\n", c.Escape, c.End, c.Seconds, verdict)
}

func (r *testResult) print(p *paper) {
	failed := 0
	for _, c := range r.Cases {
		if !c.Passed {
			failed++
		}
	}
	if r.Passed {
		p.printf("\n%s: nothing survived %d attempts on %s, in %.1f s\n", p.colour(green, "selftest passed"), len(r.Cases), r.Backend, r.Seconds)
		return
	}
	p.printf("\n%s: %d of %d attempts on %s\n", p.colour(red, "selftest failed"), failed, len(r.Cases), r.Backend)
}
