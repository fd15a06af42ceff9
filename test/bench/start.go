// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/bed"
)

const (
	startRounds = 12
	startBurst  = 5
	idleRounds  = 20
	// idleFor is longer than any state that the last start has left in the kernel:
	// moving a process to another cgroup is cheap only shortly after the last move.
	idleFor = 600 * time.Millisecond
)

// startSections times the way to the first byte, back to back and after a pause, and that of a server which ends at once to its
// exit.
func startSections(b *testing.B) []Section {
	groups, err := bed.OwnGroup()
	must(b, err)
	b.Cleanup(func() { removeLeaving(b, groups) })
	busy := Section{Title: "Start to first byte, back to back", Base: "bare"}
	idle := Section{Title: "Start to first byte, after 0.6 s of idle", Base: "bare"}
	exit := Section{Title: "Start to exit, of a server that ends at once", Base: "bare"}
	gateway := Section{Title: "Start to first byte of a gateway, which has no server yet, back to back", Base: "bare"}
	all := busy.able(b, slices.Concat(backends(), automatic(b), others(groups)))
	idle.Skipped, exit.Skipped = busy.Skipped, busy.Skipped
	busy.addStarts(all, backToBack(b, all, contender.once), 0.6)
	idle.addStarts(all, afterIdle(b, all), 0.4)
	exit.addStarts(all, backToBack(b, all, contender.whole), 0.6)
	ours := gateway.able(b, gateways(b))
	gateway.addGateways(ours, backToBack(b, ours, contender.once))
	return []Section{busy, exit, idle, gateway}
}

// removeLeaving removes the leaf that supervisors of the backend delegated go to at their
// end, and leave to the next one.
func removeLeaving(b *testing.B, own string) {
	leaving := filepath.Join(own, "leaving")
	err := bed.WaitEmpty(leaving, patience)
	if err == nil {
		err = os.Remove(leaving)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.Errorf("remove %s: %v", leaving, err)
	}
}

// able leaves out who can't be had here, with the reason.
func (s *Section) able(b *testing.B, all []contender) []contender {
	var able []contender
	for _, c := range all {
		_, err := c.once()
		switch {
		case err == nil:
			able = append(able, c)
		case c.ours:
			b.Fatal(err)
		default:
			s.Skipped = append(s.Skipped, Skipped{c.name, strings.ReplaceAll(err.Error(), "\n", ", ")})
		}
	}
	return able
}

// backToBack goes round the contenders. Each has a short burst at a time, for what comes
// before a start makes it dear or cheap: the first of a burst, and the bare one after a
// contender that may still be tidied up behind, are not counted.
func backToBack(b *testing.B, all []contender, how func(contender) (time.Duration, error)) []pairs {
	got := make([]pairs, len(all))
	for range rounds(startRounds) {
		for i, c := range all {
			took(b, c, how)
			for range startBurst {
				took(b, c.bare(), how)
				base := took(b, c.bare(), how)
				got[i].add(base, took(b, c, how))
			}
		}
	}
	return got
}

func afterIdle(b *testing.B, all []contender) []pairs {
	got := make([]pairs, len(all))
	for range rounds(idleRounds) {
		base := tookAfterIdle(b, bare)
		for i, c := range all {
			got[i].add(base, tookAfterIdle(b, c))
		}
	}
	return got
}

func took(b *testing.B, c contender, how func(contender) (time.Duration, error)) time.Duration {
	b.Helper()
	d, err := how(c)
	must(b, err)
	return d
}

// tookAfterIdle sleeps, not to wait for anything: the pause is what is measured.
func tookAfterIdle(b *testing.B, c contender) time.Duration {
	b.Helper()
	time.Sleep(idleFor)
	return took(b, c, contender.once)
}

// rounds is n, or a few where the benchmark itself is tried out: go test -short.
func rounds(n int) int {
	if testing.Short() {
		return min(n, 2)
	}
	return n
}

// addStarts makes the rows, and compares with the aims, in the same run: what bubblewrap adds in the cgroup backend, and a
// share of what systemd-run --scope adds where a manager gets the scope.
func (s *Section) addStarts(all []contender, got []pairs, share float64) {
	for i, c := range all {
		s.Rows = append(s.Rows, got[i].row(c.name, "ms", time.Millisecond))
	}
	for _, aim := range []struct {
		ours, theirs string
		share        float64
	}{{"run --backend cgroup", unshared, 1}, {runOfSystem, scopeBySystem, share}, {runOfUser, scopeByUser, share}} {
		r, other := s.find(aim.ours), s.find(aim.theirs)
		if r != nil && other != nil {
			r.aim(fmt.Sprintf("≤ %v × %s", aim.share, aim.theirs), r.Difference.P50 <= aim.share*other.Difference.P50)
		}
	}
}

// gatewayMost is how much later a gateway may start, in ms.
const gatewayMost = 8

func (s *Section) addGateways(all []contender, got []pairs) {
	for i, c := range all {
		r := got[i].row(c.name, "ms", time.Millisecond)
		r.aim(fmt.Sprintf("≤ %d ms more", gatewayMost), r.Difference.P50 <= gatewayMost)
		s.Rows = append(s.Rows, r)
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
