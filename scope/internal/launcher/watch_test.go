// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launcher

import (
	"testing"
	"time"
)

// A server that was asked to end before its supervisor had said that it runs has to end all the same: its
// supervisor may be stopped for good.
func TestWhatWasAskedForStaysDueWhenTheServerRuns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		dueAt time.Time
		armed bool
	}{
		{"nothing was asked for", time.Time{}, false},
		{"a stop was asked for", time.Now().Add(time.Hour), true},
		{"a stop is overdue", time.Now().Add(-time.Hour), true},
	} {
		l := &launcher{due: time.NewTimer(time.Hour), dueAt: c.dueAt}
		l.awaitNext()
		if armed := l.due.Stop(); armed != c.armed {
			t.Errorf("%s: the timer is armed: %v, want %v", c.name, armed, c.armed)
		}
	}
}
