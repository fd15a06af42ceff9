// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"testing"
	"time"
)

func TestAdvance(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: pause, work: pause, 2 * work: pause / 2, 100 * work: pause / 100,
	} {
		if got := advance(took); got != want {
			t.Errorf("a round of %v moves the clock by %v, want %v", took, got, want)
		}
	}
}

// The clock goes, and never ahead of real time.
func TestContext(t *testing.T) {
	began := time.Now()
	start := Now()
	ctx, cancel := Context(pause)
	defer cancel()
	<-ctx.Done()
	if passed := Now().Sub(start); passed < pause || passed > time.Since(began)+pause {
		t.Errorf("%v passed on the clock, %v in real time", passed, time.Since(began))
	}
}
