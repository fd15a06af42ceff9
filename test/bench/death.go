// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/test/escape"
)

const (
	deathRounds = 20
	termGrace   = 200 * time.Millisecond
)

// deathSections kill launchers of servers that ignore SIGTERM.
func deathSections(b *testing.B) []Section {
	s := Section{Title: fmt.Sprintf("SIGKILL of the launcher to the death of the last member, less the term grace of %v", termGrace)}
	all := backends("--term-grace", termGrace.String())
	got := make([]sample, len(all))
	for range rounds(deathRounds) {
		for i, c := range all {
			took, err := c.death()
			must(b, err)
			got[i] = append(got[i], took)
		}
	}
	for i, c := range all {
		r := got[i].less(termGrace).row(c.name, "ms", time.Millisecond)
		r.aim("≤ 1 ms", r.Value.P50 <= 1)
		s.Rows = append(s.Rows, r)
	}
	return []Section{s}
}

// death is seen by pidfd: cgroup.events would tell it up to 10 ms late.
func (c contender) death() (time.Duration, error) {
	s, err := start(c, pipe, "deaf")
	if err != nil {
		return 0, err
	}
	main, err := escape.OpenProcess(s.pid)
	if err != nil {
		return 0, err
	}
	defer main.Close()
	begin := time.Now()
	if err := s.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	if !main.Ended(patience) {
		return 0, fmt.Errorf("%s: the server lives %v after its launcher", c.name, patience)
	}
	took := time.Since(begin)
	s.hangUp()
	if err := s.cmd.Wait(); err == nil {
		return 0, fmt.Errorf("%s: the launcher ended by itself", c.name)
	}
	return took, s.awaitRemoval()
}
