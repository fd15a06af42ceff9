// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// A clock that was set back between two starts makes the newer server look older.
func TestCompareStarts(t *testing.T) {
	launched := func(ticks uint64, clock int64) *protocol.Facts {
		return &protocol.Facts{Started: clock, Launcher: protocol.Identity{PID: int(ticks), Start: ticks, Namespace: 1}}
	}
	elsewhere := launched(100, 3)
	elsewhere.Launcher.Namespace = 2
	ofGateway := launched(100, 3)
	ofGateway.Guard.PID = 7
	for name, c := range map[string]struct {
		a, b *protocol.Facts
		want int
	}{
		"later":                    {launched(200, 5), launched(100, 4), 1},
		"later, the clock is back": {launched(200, 1), launched(100, 4), 1},
		"earlier":                  {launched(100, 4), launched(200, 1), -1},
		"in the same tick":         {launched(100, 4), launched(100, 5), -1},
		"of another namespace":     {launched(50, 4), elsewhere, 1},
		"of a gateway":             {launched(50, 4), ofGateway, 1},
		"the same":                 {launched(100, 4), launched(100, 4), 0},
	} {
		if got := compareStarts(c.a, c.b); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
