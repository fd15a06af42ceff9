// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"testing"
	"time"
)

// A server is too idle after a time in which it has done nothing, and is in no call.
func TestTimeout(t *testing.T) {
	const after = 10 * time.Minute
	type look func(n int) Sample // at the n-th check, from 1 on
	for name, c := range map[string]struct {
		look look
		want time.Duration // when it is too idle; 0 for not within six hours
	}{
		"does nothing":      {func(int) Sample { return Sample{CPUKnown: true} }, after},
		"works":             {func(n int) Sample { return Sample{CPUKnown: true, CPU: time.Duration(n) * time.Second} }, 0},
		"works for a while": {func(n int) Sample { return Sample{CPUKnown: true, CPU: time.Duration(min(n, 3)) * time.Second} }, 4 * after},
		"is not known":      {func(int) Sample { return Sample{} }, 0},
		"has unread input":  {func(int) Sample { return Sample{CPUKnown: true, Unread: true} }, 0},
		"reads now and then": {func(n int) Sample {
			return Sample{CPUKnown: true, Traffic: Traffic{Read: int64(100 * n)}}
		}, 0},
		"has answered": {func(n int) Sample {
			return Sample{CPUKnown: true, Traffic: Traffic{Read: 100, Written: int64(100 * min(n-1, 1))}}
		}, 2 * after},
		"is in a call, for an hour": {func(int) Sample { return Sample{CPUKnown: true, Traffic: Traffic{Read: 100}} }, 7 * after},
		"has a helper that has ended": {func(n int) Sample {
			return Sample{CPUKnown: true, Traffic: Traffic{Members: uint64(n)}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1, 0)
			timeout := Timeout{Due: start.Add(after)}
			var got time.Duration
			for n := 1; n < 36 && got == 0; n++ {
				at := timeout.Due
				if timeout.IsOver(c.look(n), after, at) {
					got = at.Sub(start)
				}
			}
			if got != c.want {
				t.Errorf("too idle after %v, want %v", got, c.want)
			}
		})
	}
}
