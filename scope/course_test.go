//go:build linux

package scope

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/stdio"
	"github.com/mcpscope/mcpscope/test/groups"
)

// testCourse is a course of an empty group, whose ladder ends at once.
func testCourse(t *testing.T, p Policy) *course {
	t.Helper()
	c, err := newCourse(p, groups.Directory(t), &clientSide{pidfd: -1, main: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hurry.Close)
	return c
}

func TestCourse(t *testing.T) {
	type step func(*course)
	hungUp := func(c *course) { c.hungUp(stdinClosed) }
	died := func(c *course) { c.clientDied() }
	term := func(c *course) { c.signalled(unix.SIGTERM) }
	exited := func(c *course) { c.end(mainExited) }
	elapsed := func(c *course) { c.elapsed() }
	lost := func(c *course) { c.end(launcherGone) }
	for name, c := range map[string]struct {
		steps []step
		phase phase
		cause Cause
	}{
		"nothing happens":             {nil, running, ""},
		"stdin closed":                {[]step{hungUp}, finishing, stdinClosed},
		"a FIFO opened again":         {[]step{hungUp, elapsed}, running, ""}, // no watch says that it is closed
		"stdin closed, then TERM":     {[]step{hungUp, term}, stopping, stdinClosed},
		"stdin closed, client dead":   {[]step{hungUp, died}, stopping, stdinClosed},
		"client dead, stdin open":     {[]step{died}, doubting, ""},
		"and idle":                    {[]step{died, elapsed}, stopping, clientIdle},
		"and stdin closed later":      {[]step{died, hungUp}, stopping, clientDied},
		"TERM":                        {[]step{term}, stopping, signalled},
		"TERM, then stdin closed":     {[]step{term, hungUp}, stopping, signalled},
		"main process exited":         {[]step{exited}, stopping, mainExited},
		"launcher gone":               {[]step{lost}, stopping, launcherGone},
		"the first cause is the one":  {[]step{exited, term, lost}, stopping, mainExited},
		"told twice of a dead client": {[]step{died, died}, doubting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			co := testCourse(t, DefaultPolicy())
			for _, s := range c.steps {
				s(co)
			}
			if co.phase != c.phase || co.cause != c.cause {
				t.Errorf("phase %d, cause %q; want %d, %q", co.phase, co.cause, c.phase, c.cause)
			}
		})
	}
}

// With stdin closed for good the end of the EOF grace is the stop.
func TestEOFGraceIsOver(t *testing.T) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	c := testCourse(t, DefaultPolicy())
	var err error
	if c.in.stdin, err = stdio.New(p[0], stdio.HangUp); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	_ = unix.Close(p[1])
	c.hungUp(stdinClosed)
	c.elapsed()
	if c.phase != stopping || c.cause != stdinClosed {
		t.Errorf("phase %d, cause %q", c.phase, c.cause)
	}
}

func TestIgnoredClientDeath(t *testing.T) {
	p := DefaultPolicy()
	p.OnClientDeath = IgnoreClientDeath
	c := testCourse(t, p)
	c.clientDied()
	if c.phase != running {
		t.Errorf("phase %d after a death that is to be ignored", c.phase)
	}
	c.hungUp(stdinClosed)
	if c.phase != finishing {
		t.Errorf("phase %d after the end of stdin, which has its grace all the same", c.phase)
	}
}

func TestIdentity(t *testing.T) {
	self, err := identify(unix.Getpid())
	if err != nil || !self.alive() {
		t.Fatalf("%v, %v", self, err)
	}
	back, ok := parseIdentity(self.String())
	if !ok || back != self {
		t.Errorf("%q came back as %v", self, back)
	}
	reused := self
	reused.Start++
	if reused.alive() {
		t.Error("another process of this pid counts as the one")
	}
	elsewhere := reused
	elsewhere.Namespace++
	if !elsewhere.alive() {
		t.Error("a process that another pid namespace numbers so counts as dead")
	}
	for _, bad := range []string{"", "1", "1 2", "x y z", "1 -1 3"} {
		if _, ok := parseIdentity(bad); ok {
			t.Errorf("%q is taken for an identity", bad)
		}
	}
}
