// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/scope/internal/protocol"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/groups"
)

func TestMain(m *testing.M) { bed.Main(m) }

// testCourse is the lifecycle of an empty group, whose ladder ends at once.
func testCourse(t *testing.T, p protocol.Policy) *Lifecycle {
	t.Helper()
	c, err := New(p, groups.Directory(t), &ClientSide{PIDFD: -1, Main: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hurry.Close)
	return c
}

func TestCourse(t *testing.T) {
	type step func(*Lifecycle)
	hungUp := func(c *Lifecycle) { c.HungUp(protocol.StdinClosed) }
	died := func(c *Lifecycle) { c.ClientDied() }
	term := func(c *Lifecycle) { c.Signalled(unix.SIGTERM) }
	exited := func(c *Lifecycle) { c.End(protocol.MainExited) }
	elapsed := func(c *Lifecycle) { c.Elapsed() }
	lost := func(c *Lifecycle) { c.End(protocol.LauncherGone) }
	for name, c := range map[string]struct {
		steps []step
		phase phase
		cause protocol.Cause
	}{
		"nothing happens":            {nil, running, ""},
		"stdin closed":               {[]step{hungUp}, finishing, protocol.StdinClosed},
		"a FIFO opened again":        {[]step{hungUp, elapsed}, running, ""}, // no watch says that it is closed
		"stdin closed, then TERM":    {[]step{hungUp, term}, Stopping, protocol.StdinClosed},
		"stdin closed, client dead":  {[]step{hungUp, died}, Stopping, protocol.StdinClosed},
		"client dead, stdin open":    {[]step{died}, doubting, ""},
		"and idle":                   {[]step{died, elapsed}, Stopping, protocol.ClientIdle},
		"and stdin closed later":     {[]step{died, hungUp}, Stopping, protocol.ClientDied},
		"TERM":                       {[]step{term}, Stopping, protocol.Signalled},
		"main process exited":        {[]step{exited}, Stopping, protocol.MainExited},
		"launcher gone":              {[]step{lost}, Stopping, protocol.LauncherGone},
		"the first cause is the one": {[]step{exited, term, lost}, Stopping, protocol.MainExited},
	} {
		t.Run(name, func(t *testing.T) {
			co := testCourse(t, protocol.DefaultPolicy())
			for _, s := range c.steps {
				s(co)
			}
			if co.Phase != c.phase || co.Cause != c.cause {
				t.Errorf("phase %d, cause %q; want %d, %q", co.Phase, co.Cause, c.phase, c.cause)
			}
		})
	}
}
