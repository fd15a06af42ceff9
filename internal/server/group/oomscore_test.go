// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"slices"
	"testing"
)

// A score is never raised: a privileged process may have set one that is no multiple of 100, and the least.
func TestLowerScores(t *testing.T) {
	for present, want := range map[int]struct{ first, last int }{0: {-1000, -100}, 250: {-1000, 200}, 1000: {-1000, 900}} {
		got := lowerScores(present)
		if got[0] != want.first || got[len(got)-1] != want.last || !slices.IsSorted(got) {
			t.Errorf("%d: %v, want %+v", present, got, want)
		}
	}
	if got := lowerScores(-1000); got != nil {
		t.Errorf("of the least score: %v", got)
	}
}
