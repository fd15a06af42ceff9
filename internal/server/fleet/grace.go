// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/mcpscope/mcpscope/internal/server/policy"
)

// Grace is the longest time from SIGTERM to SIGKILL in a stop. It can only shorten what a server, an orphan
// or an agent has. The zero value is AsConfigured.
type Grace struct {
	isGiven bool
	given   time.Duration // freeze.Forever is infinity
}

// AsConfigured leaves the grace to the policy of each server.
func AsConfigured() Grace { return Grace{} }

// AtMost is a grace that a person has given, which may be freeze.Forever.
func AtMost(d time.Duration) Grace { return Grace{isGiven: true, given: d} }

// shorten returns the shorter one of a finite grace and g.
func (g Grace) shorten(own time.Duration) time.Duration {
	if !g.isGiven || g.given < 0 {
		return own
	}
	return min(g.given, own)
}

// stopMost bounds the term grace in a server's attribute, which the server can write.
const stopMost = time.Minute

// killAt is when a server that was asked to stop now, and has that term grace, is killed by the caller. It is
// the zero time for an infinite grace.
func (g Grace) killAt(own time.Duration) time.Time {
	now := time.Now()
	switch {
	case !g.isGiven && (own < 0 || own > stopMost):
		return now.Add(stopMost + policy.ReactWithin)
	case !g.isGiven:
		return now.Add(own + policy.ReactWithin) // for the helper to do it
	case g.given < 0:
		return time.Time{}
	}
	return now.Add(g.given)
}
