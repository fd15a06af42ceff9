// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/freeze"
)

// killRounds is how often groups of n are killed: large ones take long to make.
func killRounds(n int) int {
	if n < 1000 {
		return rounds(40)
	}
	return rounds(15)
}

// killSections compare the product's ladder with the same two writes by a C program, on
// equal groups, one after the other.
func killSections(b *testing.B) []Section {
	s := Section{Title: "From the write of cgroup.freeze to populated 0", Base: "two writes (C)"}
	for _, kind := range []string{"sleep", "busy"} {
		for _, n := range []int{1, 10, 100, 1000} {
			ladder, waiting := killPairs(b, n, kind)
			what := fmt.Sprintf("%d %s: ", n, map[string]string{"sleep": "asleep", "busy": "busy"}[kind])
			r := ladder.row(what+"the ladder", "µs", time.Microsecond)
			r.aim("≤ 1.1", r.Ratio <= 1.1)
			s.Rows = append(s.Rows, r, waiting.row(what+"C, waiting for frozen 1", "µs", time.Microsecond))
		}
	}
	return []Section{s}
}

func killPairs(b *testing.B, n int, kind string) (ladder, waiting pairs) {
	for round := range killRounds(n) + 1 {
		floor := killed(b, n, kind, twoWrites)
		ours := killed(b, n, kind, climb)
		frozen := killed(b, n, kind, twoWritesFrozen)
		if round > 0 { // the first is to warm up
			ladder.add(floor, ours)
			waiting.add(floor, frozen)
		}
	}
	return ladder, waiting
}

func killed(b *testing.B, n int, kind string, kill func(dir string) (time.Duration, error)) time.Duration {
	b.Helper()
	c, err := newCrowd(n, kind)
	must(b, err)
	took, err := kill(c.dir)
	must(b, err)
	must(b, c.end())
	return took
}

// climb is the product's ladder, from its kill rung.
func climb(dir string) (time.Duration, error) {
	g, err := cgroup.Open(dir)
	if err != nil {
		return 0, err
	}
	defer g.Close()
	t := &timed{Target: g}
	res, err := freeze.Stop{Target: t}.Run()
	took := time.Since(t.begin)
	if err == nil && len(res.Stuck) > 0 {
		err = fmt.Errorf("the ladder left %v", res.Stuck)
	}
	return took, err
}

// timed notes when the kill rung begins.
type timed struct {
	freeze.Target
	begin time.Time
}

func (t *timed) SetFrozen(frozen bool) error {
	t.begin = time.Now()
	return t.Target.SetFrozen(frozen)
}

func twoWrites(dir string) (time.Duration, error) { return byC(dir) }

func twoWritesFrozen(dir string) (time.Duration, error) { return byC(dir, "frozen") }

func byC(dir string, args ...string) (time.Duration, error) {
	cmd := exec.Command(twoWritesFile, append([]string{dir}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return time.Duration(ns), err
}
