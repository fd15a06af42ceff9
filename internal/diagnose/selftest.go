// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// testCase is a server with a child, which both ignore SIGTERM, and one way to stop them.
type testCase struct {
	Child   string `json:"child"`
	End     string `json:"end"`
	Passed  bool   `json:"passed"`
	Problem string `json:"problem,omitempty"`
}

// for a loaded machine; a case takes 0.4 s
const startWithin, goneWithin = 30 * time.Second, time.Minute

// selftestChildren start the child of a server in its session, or in another. If run fails, it exits some
// time later.
var selftestChildren = map[string]string{"child": "sleep 300", "setsid": "setsid sleep 300"}

// selftestEnds stop a server as clients do.
var selftestEnds = map[string]func(launcher *os.Process, stdin *os.File) error{
	"stdin-closed":    func(_ *os.Process, stdin *os.File) error { return stdin.Close() },
	"sigterm":         func(launcher *os.Process, _ *os.File) error { return launcher.Signal(unix.SIGTERM) },
	"launcher-killed": func(launcher *os.Process, _ *os.File) error { return launcher.Kill() },
}

// Selftest starts and stops six servers, one after the other.
func Selftest(by programs, b protocol.Backend) (cases []testCase) {
	for _, end := range slices.Sorted(maps.Keys(selftestEnds)) {
		for _, child := range slices.Sorted(maps.Keys(selftestChildren)) {
			c := testCase{Child: child, End: end, Passed: true}
			if err := c.try(by, b); err != nil {
				c.Passed, c.Problem = false, err.Error()
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// try: each process holds the write end of roll, so end of file proves that all are dead, without pids, which
// can be reused.
func (c *testCase) try(by programs, b protocol.Backend) error {
	var stdin, roll struct{ read, write *os.File }
	for _, p := range []*struct{ read, write *os.File }{&stdin, &roll} {
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			return err
		}
		defer p.read.Close()
		defer p.write.Close()
	}
	script := "trap '' TERM INT HUP QUIT; " + selftestChildren[c.Child] + " & echo >&3; exec sleep 300"
	launcher, err := by.start(b, []*os.File{stdin.read, nil, nil, roll.write},
		"--eof-grace", "200ms", "--term-grace", "200ms", "--", "sh", "-c", script)
	for _, f := range []*os.File{stdin.read, roll.write} {
		_ = f.Close() // the launcher has duplicates
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = launcher.Kill() // not a bare pid: package os tracks whether it was reaped
		_, _ = launcher.Wait()
	}()
	_ = roll.read.SetReadDeadline(time.Now().Add(startWithin)) // a pipe has deadlines
	if _, err := io.ReadFull(roll.read, make([]byte, 1)); err != nil {
		return fmt.Errorf("the server did not start: %w", err)
	}
	if err := selftestEnds[c.End](launcher, stdin.write); err != nil {
		return err
	}
	_ = roll.read.SetReadDeadline(time.Now().Add(goneWithin))
	if _, err := io.Copy(io.Discard, roll.read); err != nil {
		return fmt.Errorf("a process is left after %v", goneWithin)
	}
	return nil
}
