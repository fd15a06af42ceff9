// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A crew is a probe with a child in its process group and another in a session of its own.
type crew struct {
	*escape.Members
	t     *testing.T
	pids  map[string]int // by role: "main", "child" and "session"
	marks []unix.Signal  // that each has got since the start
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	return &crew{Members: escape.NewMembers(t), t: t, pids: map[string]int{}}
}

// line is the probe's command.
func (c *crew) line(s Subject) []string {
	return []string{s.Programs.Probe, "--register", c.Address, "--members", "2", "--continued"}
}

func (c *crew) up(stderr func() string) {
	c.t.Helper()
	c.t.Cleanup(c.Kill) // before a process that would wait for their grace
	if err := c.UntilReady(escape.Patience); err != nil {
		c.t.Fatalf("%v; %s", err, stderr())
	}
	p, _ := c.Main()
	c.pids["main"] = p.PID
	for _, said := range c.Said() {
		var role string
		var pid int
		if n, _ := fmt.Sscanf(said.Text, "role %d %s", &pid, &role); n == 2 {
			c.pids[role] = pid
		}
	}
	if len(c.pids) != 3 {
		c.t.Fatalf("the members are %v", c.pids)
	}
}

// want waits until each process has received the signals, and then for two more signals to each, sent the
// same way. A signal that has not arrived before those does not arrive. Two, because of pending signals the
// kernel delivers the lowest number first.
func (c *crew) want(send func(unix.Signal), want map[string][]unix.Signal) {
	c.t.Helper()
	c.await(func(role string, got []unix.Signal) bool { return len(got) >= len(want[role])+len(c.marks) })
	for range 2 {
		c.marks = append(c.marks, unix.SIGUSR2)
		send(unix.SIGUSR2)
		for _, role := range []string{"child", "session"} {
			_ = unix.Kill(c.pids[role], unix.SIGUSR2) // a member lives until we end it
		}
		c.await(func(_ string, got []unix.Signal) bool {
			return len(slices.DeleteFunc(got, func(sig unix.Signal) bool { return sig != unix.SIGUSR2 })) >= len(c.marks)
		})
	}
	got := Received(c.Said())
	for role, pid := range c.pids {
		all := append(slices.Clone(want[role]), c.marks...)
		slices.Sort(all)
		if slices.Sort(got[pid]); !slices.Equal(got[pid], all) {
			c.t.Errorf("the %s got %v, want %v", role, got[pid], all)
		}
	}
}

// await waits until each has got enough.
func (c *crew) await(enough func(role string, got []unix.Signal) bool) {
	c.AwaitSaid(escape.Patience, func(all []escape.Saying) bool { // what is missing shows
		got := Received(all)
		for role, pid := range c.pids {
			if !enough(role, got[pid]) {
				return false
			}
		}
		return true
	})
}

// Received are the signals that members have said they got, by pid.
func Received(all []escape.Saying) map[int][]unix.Signal {
	got := make(map[int][]unix.Signal)
	for _, said := range all {
		var pid, sig int
		if n, _ := fmt.Sscanf(said.Text, "signal %d %d", &pid, &sig); n == 2 {
			got[pid] = append(got[pid], unix.Signal(sig))
		}
	}
	return got
}

// each says that everyone gets the signals.
func each(signals ...unix.Signal) map[string][]unix.Signal {
	return only(signals, "main", "child", "session")
}

func only(signals []unix.Signal, roles ...string) map[string][]unix.Signal {
	all := map[string][]unix.Signal{}
	for _, role := range roles {
		all[role] = signals
	}
	return all
}

var (
	ending = []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT}
	others = []unix.Signal{unix.SIGUSR1, unix.SIGHUP, unix.SIGWINCH, unix.SIGCONT}
)

// Signals: each signal reaches the server once, however the client sends it: an ending one
// each member, with SIGCONT for those that are stopped, and any other the main process. While
// the ladder runs no other signal asks a member again.
func Signals(t *testing.T, s Subject) {
	ways := map[string][2]string{"pid": {"--group", "signal"}, "group": {"--group", "killpg"}, "session": {"--session", "killpg"}}
	for way, how := range ways {
		for _, sig := range slices.Concat(ending, others) {
			if way != "pid" && sig != unix.SIGTERM && !escape.Full() {
				continue
			}
			t.Run(way+"/"+unix.SignalName(sig), func(t *testing.T) {
				t.Parallel()
				site := s.Site(t)
				crew := newCrew(t)
				c := site.NewClient(site.Unique("client"), []string{how[0]}, s.contained("--term-grace", "infinity").line(crew.line(s)...))
				crew.up(func() string { return escape.Contents(c.Stderr) })
				send := func(sig unix.Signal) { c.Tell("%s %d", how[1], sig) }
				send(sig)
				last := sig
				want := each(sig, unix.SIGCONT)
				if !slices.Contains(ending, sig) {
					crew.want(send, only([]unix.Signal{sig}, "main"))
					last = unix.SIGTERM
					want = each(unix.SIGTERM, unix.SIGCONT)
					want["main"] = append(want["main"], sig)
					send(last)
				}
				crew.want(send, want)
				for _, other := range ending {
					if other != last {
						send(other)
					}
				}
				crew.want(send, want)
				ended := func() bool { // the same again: now; but signals within 50 ms count as one
					send(last)
					return c.Status(20*time.Millisecond) != ""
				}
				if !pace.Eventually(escape.Patience, ended) || c.Status(0) != "signal 9" {
					t.Errorf("ended with %q", c.Status(0))
				}
			})
		}
	}
}

// EndOfStdin is no signal: after its grace the members get SIGTERM, with SIGCONT for those that are stopped,
// and they have got nothing before.
func EndOfStdin(t *testing.T, s Subject) {
	site := s.Site(t)
	crew := newCrew(t)
	line := s.contained("--eof-grace", "100ms", "--term-grace", "infinity").line(crew.line(s)...)
	c := site.NewClient(site.Unique("client"), []string{"--group"}, line)
	crew.up(func() string { return escape.Contents(c.Stderr) })
	delete(crew.pids, "main") // it exits by itself, and leaves the others
	c.Tell("close")
	crew.await(func(_ string, got []unix.Signal) bool { return slices.Contains(got, unix.SIGTERM) })
	crew.want(func(unix.Signal) {}, only([]unix.Signal{unix.SIGTERM, unix.SIGCONT}, "child", "session"))
}
