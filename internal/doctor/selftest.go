// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// TestCase is a server with a child, which both ignore SIGTERM, and one way to stop them.
type TestCase struct {
	Child   string `json:"child"`
	End     string `json:"end"`
	Passed  bool   `json:"passed"`
	Problem string `json:"problem,omitempty"`
}

// Deadlines for a loaded machine. A case takes 0.4 s.
const (
	startWithin = 30 * time.Second
	goneWithin  = time.Minute
)

// selftestChildren start the child of a server in its process session, or in another. If run fails, it
// exits some time later.
var selftestChildren = map[string]string{"child": "sleep 300", "setsid": "setsid sleep 300"}

// selftestEnds stop a server as clients do.
var selftestEnds = map[string]func(launcher *os.Process, stdin *os.File) error{
	"stdin-closed":    func(_ *os.Process, stdin *os.File) error { return stdin.Close() },
	"sigterm":         func(launcher *os.Process, _ *os.File) error { return launcher.Signal(unix.SIGTERM) },
	"launcher-killed": func(launcher *os.Process, _ *os.File) error { return launcher.Kill() },
}

// Selftest has a runner start and stop six servers, one after the other.
func Selftest(runner string, b names.Backend) []TestCase {
	var cases []TestCase
	for _, end := range slices.Sorted(maps.Keys(selftestEnds)) {
		for _, child := range slices.Sorted(maps.Keys(selftestChildren)) {
			c := TestCase{Child: child, End: end}
			err := c.try(runner, b)
			c.Passed = err == nil
			if err != nil {
				c.Problem = err.Error()
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// try starts a server and stops it. Each process holds the write end of the roll, so its end of file proves
// that all are dead, without pids, which can be reused.
func (c *TestCase) try(runner string, b names.Backend) error {
	stdin, err := newPipe()
	if err != nil {
		return err
	}
	defer stdin.close()
	roll, err := newPipe()
	if err != nil {
		return err
	}
	defer roll.close()
	script := "trap '' TERM INT HUP QUIT; " + selftestChildren[c.Child] + " & echo >&3; exec sleep 300"
	launcher, err := start(runner, b, []*os.File{stdin.read, nil, nil, roll.write},
		"--eof-grace", "200ms", "--term-grace", "200ms", "--", "sh", "-c", script)
	if err != nil {
		return err
	}
	defer func() {
		_ = launcher.Kill() // not a bare pid: package os tracks whether it was reaped
		_, _ = launcher.Wait()
	}()
	_ = stdin.read.Close() // the launcher has duplicates
	_ = roll.write.Close()
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
