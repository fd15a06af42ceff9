// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/test/groups"
)

// A container gets the limits that its engine has a flag for, in front of the line's own, of which the last counts.
func TestEngineFlags(t *testing.T) {
	limits := func(all ...string) (l cgroup.Limits) {
		for _, text := range all {
			file, value, _ := strings.Cut(text, "=")
			l.Files = append(l.Files, cgroup.Limit{File: file, Value: value})
		}
		return l
	}
	for _, c := range []struct {
		line   string
		limits cgroup.Limits
		want   string
	}{
		{"docker run -i --memory=1g IMAGE", limits("memory.max=1048576"), "docker run --label mcpscope.id=ID --memory=1048576b -i --memory=1g IMAGE"},
		{"podman run IMAGE", limits("pids.max=100", "cpu.max=150000 100000", "memory.swap.max=0", "memory.max=1048576", "io.weight=50"),
			"podman run --label mcpscope.id=ID --memory=1048576b --memory-swap=1048576b --cpus=1.500 --pids-limit=100 IMAGE"},
		{"docker run IMAGE", limits("memory.swap.max=0", "cpu.max=max 100000"), "docker run --label mcpscope.id=ID IMAGE"},
		{"npx run", limits("memory.max=1048576"), "npx run"},
	} {
		if got := strings.Join(Labelled(strings.Fields(c.line), "ID", c.limits), " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.line, got, c.want)
		}
	}
}

// An engine that needs time to remove a container is not asked without a pause: this one has removed it after a pause.
func TestEngineIsAskedWithPauses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docker": `#!/bin/sh
[ "$1" != ps ] || [ -e "$0.paused" ] || echo container
`,
		"sleep": `#!/bin/sh
: >"${0%sleep}docker.paused"
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := Contained{ID: "id", Argv: []string{filepath.Join(dir, "docker"), "run", "IMAGE"}, Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}}
	if err := s.End(); err != nil {
		t.Error(err)
	}
}

// A course is a lifecycle with the ends of its server's stdin.
type course struct {
	*Lifecycle
	client, server int
}

func newCourse(t *testing.T, p protocol.Policy, payload *groups.Stubborn, unread string) *course {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	c := &course{client: ends[1], server: ends[0]}
	_, _ = unix.Write(c.client, []byte(unread)) // a pipe has room
	in := &ClientSide{PIDFD: -1, Main: -1}
	t.Cleanup(func() {
		in.Close()
		_ = unix.Close(c.server)
		_ = unix.Close(c.client) // -1 when it has hung up
	})
	var err error
	if in.Stdin, err = linux.NewWatch(c.server, linux.HangUp); err != nil {
		t.Fatal(err)
	}
	if in.Input, err = linux.NewWatch(c.server, linux.Input); err != nil {
		t.Fatal(err)
	}
	if c.Lifecycle, err = New(p, payload, in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hurry.Close)
	return c
}

func (c *course) hangUp() {
	_ = unix.Close(c.client)
	c.client = -1
	c.HungUp(protocol.StdinClosed)
}

func (c *course) endGrace() { c.EndGrace() }

func (c *course) read() { _, _ = unix.Read(c.server, make([]byte, 64)) }

// rings is what a loop waits for.
func rings(a *Alarm) <-chan time.Time {
	if a.At().IsZero() {
		return nil
	}
	return time.After(time.Until(a.At()))
}

// An event is something that happens to a server some time after its start.
type event struct {
	after time.Duration
	do    func(*course)
}

// When a server that does not end by itself is killed, and why: in virtual time, with the supervisor's loop.
func TestWhenAServerIsKilled(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	hungUp := (*course).hangUp
	died := func(c *course) { c.ClientDied() }
	term := func(c *course) { c.Signalled(unix.SIGTERM) }
	exited := func(c *course) { c.End(protocol.MainExited) }
	lost := func(c *course) { c.End(protocol.LauncherGone) }
	worksFor := func(most time.Duration) func(time.Duration) time.Duration {
		return func(since time.Duration) time.Duration { return min(since, most) }
	}
	for name, c := range map[string]struct {
		policy func(*protocol.Policy)
		unread string
		worked func(time.Duration) time.Duration
		events []event
		want   time.Duration
		cause  protocol.Cause
	}{
		"the EOF grace, then the term grace":  {events: []event{{0, hungUp}}, want: 2200 * ms, cause: protocol.StdinClosed},
		"the EOF grace waits for the reader":  {unread: "x", events: []event{{0, hungUp}, {3*s + 20*ms, (*course).read}}, want: 3050*ms + 2200*ms, cause: protocol.StdinClosed},
		"but not for ever":                    {unread: "x", events: []event{{0, hungUp}}, want: protocol.UnreadWait + 2200*ms, cause: protocol.StdinClosed},
		"a dead client's server that is idle": {events: []event{{0, died}}, want: 11 * s, cause: protocol.ClientIdle},
		"and one that works":                  {worked: worksFor(25 * s), events: []event{{0, died}}, want: 41 * s, cause: protocol.ClientIdle},
		"its stdin is closed meanwhile":       {events: []event{{0, died}, {4 * s, hungUp}}, want: 5 * s, cause: protocol.ClientDied},
		"a client's death that is ignored":    {policy: func(p *protocol.Policy) { p.OnClientDeath = protocol.IgnoreClientDeath }, events: []event{{0, died}, {50 * s, hungUp}}, want: 52200 * ms, cause: protocol.StdinClosed},
		"the main process exits":              {events: []event{{0, exited}, {s / 2, lost}}, want: s, cause: protocol.MainExited},
		"stdin is closed, then a signal": {events: []event{{0, hungUp}, {s, term}}, want: 2 * s,
			cause: protocol.StdinClosed},
		"a signal":                        {events: []event{{0, term}}, want: s, cause: protocol.Signalled},
		"one that was sent again":         {events: []event{{0, term}, {50 * ms, term}}, want: 50 * ms, cause: protocol.Signalled},
		"another signal":                  {events: []event{{0, term}, {500 * ms, func(c *course) { c.Signalled(unix.SIGINT) }}}, want: s, cause: protocol.Signalled},
		"a term grace without an end":     {policy: func(p *protocol.Policy) { p.TermGrace = -1 }, events: []event{{0, term}, {20 * s, term}}, want: 20 * s, cause: protocol.Signalled},
		"a grace that is ended before":    {events: []event{{0, (*course).endGrace}, {s, term}}, want: s, cause: protocol.Signalled},
		"and one that runs":               {events: []event{{0, term}, {300 * ms, (*course).endGrace}}, want: 300 * ms, cause: protocol.Signalled},
		"and one without an end":          {policy: func(p *protocol.Policy) { p.TermGrace = -1 }, events: []event{{0, term}, {20 * s, (*course).endGrace}}, want: 20 * s, cause: protocol.Signalled},
		"a grace ends beside a container": {events: []event{{0, func(c *course) { c.Beside = 3 * s }}, {s, term}, {1500 * ms, (*course).endGrace}}, want: 5 * s, cause: protocol.Signalled},
		"a kill":                          {events: []event{{2 * s, func(c *course) { c.Kill() }}}, want: 2 * s},
		"a container is ended beside":     {events: []event{{0, func(c *course) { c.Beside = 3 * s }}, {s, term}}, want: 5 * s, cause: protocol.Signalled},
		"and has ended":                   {events: []event{{0, func(c *course) { c.Beside = 3 * s }}, {s, term}, {2500 * ms, func(c *course) { c.Hurry() }}}, want: 2500 * ms, cause: protocol.Signalled},

		"a life that is over":              {policy: func(p *protocol.Policy) { p.MaxLifetime = time.Hour }, worked: worksFor(2 * time.Hour), want: time.Hour + s, cause: protocol.LifetimeOver},
		"idle too long":                    {policy: func(p *protocol.Policy) { p.IdleTimeout = 10 * time.Minute }, want: 10*time.Minute + s, cause: protocol.IdleTooLong},
		"who has something to read is not": {policy: func(p *protocol.Policy) { p.IdleTimeout, p.MaxLifetime = 10*time.Minute, time.Hour }, unread: "x", want: time.Hour + s, cause: protocol.LifetimeOver},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := protocol.DefaultPolicy()
				if c.policy != nil {
					c.policy(&p)
				}
				born := time.Now()
				payload := &groups.Stubborn{}
				if c.worked != nil {
					payload.Worked = func() time.Duration { return c.worked(time.Since(born)) }
				}
				life := newCourse(t, p, payload, c.unread)
				over := time.After(2 * time.Hour)
				for limits := NewLimits(p); life.Phase != Stopped; {
					var next <-chan time.Time
					if len(c.events) > 0 {
						next = time.After(c.events[0].after - time.Since(born))
					}
					select {
					case <-next:
						c.events[0].do(life)
						c.events = c.events[1:]
					case <-rings(&life.Alarm):
						life.Alarm.Stop()
						life.Elapsed()
					case <-rings(&limits.Alarm):
						limits.Alarm.Stop()
						limits.Elapsed(life.Lifecycle)
					case end := <-life.Ladder:
						life.Climbed(end)
					case <-over:
						life.Kill()
					}
				}
				if took := payload.Killed.Sub(born); took < c.want || took > c.want+ms || life.Cause != c.cause || !payload.Frozen {
					t.Errorf("killed after %v because of %q (frozen: %v), want %v, %q", took, life.Cause, payload.Frozen, c.want, c.cause)
				}
			})
		})
	}
}

func testLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := NewLoop()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(l.epoll) })
	return l
}

// pipes returns the ends of a pipe.
func pipes(t *testing.T) (read, write int) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(ends[0]) })
	return ends[0], ends[1]
}

// An end is told of before it is reported, once, until somebody asks again; of several that come together none is lost.
func TestLoopReportsEachOnce(t *testing.T) {
	t.Parallel()
	l := testLoop(t)
	var told []Token
	l.HungUp = func(t Token) { told = append(told, t) }
	want := []Token{TokenStdin, TokenStdout, TokenControl}
	first := 0
	for i, token := range want {
		read, write := pipes(t)
		if err := l.Add(read, token); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(write) // nothing was written
		if i == 0 {
			first = read
		}
	}
	var got []Token
	for range want {
		got = append(got, l.Next())
		if len(told) != len(want) {
			t.Errorf("told of %v when the first was reported, want all %d", told, len(want))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("reported: %v, want %v", got, want)
	}
	l.Again(first, TokenStdin)
	if again := l.Next(); again != TokenStdin {
		t.Errorf("asked again, and %v was reported, want %v", again, TokenStdin)
	}
}

// The first alarm ends the wait, and not before it rings; it rings once.
func TestLoopWaitsForTheFirstAlarm(t *testing.T) {
	t.Parallel()
	l := testLoop(t)
	var never, late, soon Alarm
	late.Set(time.Hour)
	for range 20 {
		soon.Set(1500 * time.Microsecond)
		if token := l.Next(&never, &late, &soon); token != TokenNone || !soon.Rings() || soon.Rings() ||
			late.Rings() || never.Rings() {
			t.Errorf("%v was reported; alarms %+v, %+v, %+v", token, soon, late, never)
		}
	}
}

// Signals arrive by the loop, also while it waits, and a signal that it does not catch does not end the wait.
func TestLoopCatches(t *testing.T) {
	l := testLoop(t)
	if err := l.Catch(unix.SIGUSR1, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	for _, send := range []func(){func() { _ = unix.Kill(unix.Getpid(), unix.SIGUSR2) },
		func() { l.Signal(unix.SIGUSR2) }} {
		go func() {
			_ = unix.Kill(unix.Getpid(), unix.SIGCONT)
			_ = unix.Kill(unix.Getpid(), unix.SIGURG) // the runtime's
			l.Wake()
			send()
		}()
		for got := []unix.Signal(nil); !slices.Contains(got, unix.SIGUSR2); got = l.Signals() {
			if token := l.Next(); token != TokenSignals {
				t.Fatalf("%v was reported, want %v", token, TokenSignals)
			}
		}
	}
}
