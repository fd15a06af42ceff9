// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// A grace shortens that of an orphan or an agent, and never extends it. Without one a server has its own, which
// is bounded: its attribute may say anything.
func TestGrace(t *testing.T) {
	const own = 3 * time.Second
	for _, c := range []struct {
		grace    Grace
		policy   time.Duration
		shorter  time.Duration
		killedIn time.Duration // 0 is never
	}{
		{AsConfigured(), own, own, own + policy.ReactWithin},
		{AsConfigured(), freeze.Forever, own, stopMost + policy.ReactWithin},
		{AsConfigured(), time.Hour, own, stopMost + policy.ReactWithin},
		{AtMost(time.Second), own, time.Second, time.Second},
		{AtMost(time.Hour), own, own, time.Hour},
		{AtMost(freeze.Forever), own, own, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var want time.Time
			if c.killedIn > 0 {
				want = time.Now().Add(c.killedIn)
			}
			if got := c.grace.shorten(own); got != c.shorter {
				t.Errorf("%+v: %s instead of %s", c.grace, got, own)
			}
			if got := c.grace.killAt(c.policy); !got.Equal(want) {
				t.Errorf("%+v, policy %s: killed at %s, want %s", c.grace, c.policy, got, want)
			}
		})
	}
}
