// SPDX-License-Identifier: Apache-2.0

//go:build linux

package lifecycle

import "time"

// Alarm is a time at which a Loop returns. The zero value is none.
type Alarm struct{ at time.Time }

// Set makes it ring once, after d.
func (a *Alarm) Set(d time.Duration) { a.at = time.Now().Add(d) }

func (a *Alarm) Stop() { a.at = time.Time{} }

// At is when it will ring, the zero time for never.
func (a *Alarm) At() time.Time { return a.at }

// Rings tells, once, that its time has come.
func (a *Alarm) Rings() bool {
	if a.at.IsZero() || time.Until(a.at) > 0 {
		return false
	}
	a.Stop()
	return true
}
