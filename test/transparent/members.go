// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A crew is a probe with a child in its process group and another in a session of its own.
type crew struct {
	*escape.Members
	t    *testing.T
	main int
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	return &crew{Members: escape.NewMembers(t), t: t}
}

// line is the probe's command.
func (c *crew) line(s Subject) []string {
	return []string{s.Programs.Probe, "--register", c.Address, "--members", "2", "--continued"}
}

func (c *crew) up(stderr func() string) {
	c.t.Helper()
	if err := c.UntilReady(escape.Patience); err != nil {
		c.t.Fatalf("%v; %s", err, stderr())
	}
	p, _ := c.Main()
	c.main = p.PID
}

// got are the signals by role: "main", "child" and "session".
func (c *crew) got() map[string][]unix.Signal {
	all := map[string][]unix.Signal{}
	for pid, signals := range Received(c.Said()) {
		all[c.role(pid)] = signals
	}
	return all
}

func (c *crew) role(pid int) string {
	if pid == c.main {
		return "main"
	}
	for _, said := range c.Said() {
		var role string
		var who int
		if n, _ := fmt.Sscanf(said.Text, "role %d %s", &who, &role); n == 2 && who == pid {
			return role
		}
	}
	return "?"
}

// want waits until each has got the signals, and a moment for one too many.
func (c *crew) want(want map[string][]unix.Signal) {
	c.t.Helper()
	same := func() bool { return maps.EqualFunc(sorted(c.got()), sorted(want), slices.Equal) }
	changes := func([]escape.Saying) bool { return same() }
	c.awaitSaid(escape.Patience, changes)
	before := len(c.Said())
	c.awaitSaid(aMoment, func(all []escape.Saying) bool { return len(all) > before })
	if !same() {
		c.t.Errorf("got %v, want %v", c.got(), want)
	}
}

// aMoment is longer than the launcher needs to decide for whom a signal was.
const aMoment = 250 * time.Millisecond

// awaitSaid looks again after every message; the members' lock is not held meanwhile.
func (c *crew) awaitSaid(limit time.Duration, enough func([]escape.Saying) bool) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		all := c.Said()
		if enough(all) {
			return
		}
		c.AwaitSaid(time.Until(deadline), func(now []escape.Saying) bool { return len(now) > len(all) })
	}
}

func sorted(all map[string][]unix.Signal) map[string][]unix.Signal {
	some := map[string][]unix.Signal{}
	for role, signals := range all {
		if signals = slices.Clone(signals); len(signals) > 0 {
			slices.Sort(signals)
			some[role] = signals
		}
	}
	return some
}

// Received are the signals that members have said they got, by pid.
func Received(all []escape.Saying) map[int][]unix.Signal {
	got := make(map[int][]unix.Signal)
	for _, said := range all {
		var pid, sig int
		if n, _ := fmt.Sscanf(said.Text, "signal %d %d", &pid, &sig); n == 2 && strings.HasPrefix(said.Text, "signal") {
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
