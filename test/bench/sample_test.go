// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"testing"
	"time"
)

func TestQuantileIsByNearestRank(t *testing.T) {
	s := sample{50, 10, 40, 20, 30, 60, 70, 80, 90, 100}
	for q, want := range map[float64]time.Duration{0: 10, 0.5: 50, 0.9: 90, 1: 100} {
		if got := s.quantile(q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if s[0] != 50 {
		t.Error("the sample was reordered: pairs would no longer be pairs")
	}
}

// Load that doubles both of a pair must not show in the median of the differences.
func TestDifferencesArePaired(t *testing.T) {
	var p pairs
	for _, load := range []time.Duration{0, 1000, 5, 70000, 3} {
		p.add(10+load, 14+load)
	}
	r := p.row("x", "ns", time.Nanosecond)
	if r.Difference.P50 != 4 || r.Difference.Min != 4 || r.Difference.P90 != 4 {
		t.Errorf("differences: %+v, want 4 throughout", *r.Difference)
	}
	if r.Ratio != 19.0/15 {
		t.Errorf("ratio of the medians: %v", r.Ratio)
	}
}
