// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"testing"
	"time"
)

// A supervisor that is held before it could say that the server runs is waited for until what was asked for is due.
func TestAServerRunsWhateverItsSupervisorHasSaid(t *testing.T) {
	t.Parallel()
	before, after := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		name      string
		pidfd     int
		dueAt     time.Time
		populated bool
		want      bool
	}{
		{"nothing was asked for", -1, time.Time{}, true, true},
		{"a stop is not due", -1, after, true, true},
		{"a stop is overdue, without a member", -1, before, false, true},
		{"a stop is overdue", -1, before, true, false},
		{"it said so", 0, before, false, false},
	} {
		l := &launcher{pidfd: c.pidfd, dueAt: c.dueAt}
		if got := l.starting(func() bool { return c.populated }); got != c.want {
			t.Errorf("%s: still starting: %v, want %v", c.name, got, c.want)
		}
	}
}
