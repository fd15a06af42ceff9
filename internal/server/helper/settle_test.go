// SPDX-License-Identifier: Apache-2.0

package helper

import (
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Two clients that docker exec has started are process 0 for their servers, with the same start: --replace stops neither.
func TestClientsThatAreAlike(t *testing.T) {
	of := func(pid int, start, namespace uint64) *protocol.Facts {
		f := &protocol.Facts{Client: protocol.ClientFacts{PID: pid, Start: start}}
		f.Launcher.Namespace = namespace
		return f
	}
	for name, c := range map[string]struct {
		pid       int
		initReaps bool
		want      bool
	}{
		"a process":                        {2, true, true},
		"outside of the namespace":         {0, true, false},
		"of an init that does not reap":    {0, false, false},
		"an agent that is process 1":       {1, false, true},
		"the init that its server gets to": {1, true, false},
	} {
		if got := hasKnownClient(of(c.pid, 5, 1), c.initReaps); got != c.want {
			t.Errorf("%s is known: %t", name, got)
		}
	}
	one := of(7, 5, 1)
	for name, other := range map[string]*protocol.Facts{
		"another process": of(8, 5, 1), "started at another time": of(7, 6, 1), "in another namespace": of(7, 5, 2),
	} {
		if haveOneClient(one, other) {
			t.Errorf("%s is taken for the same client", name)
		}
	}
	if !haveOneClient(one, of(7, 5, 1)) {
		t.Error("the same client is taken for another one")
	}
}

// A clock that was set back between two starts makes the newer server look older.
func TestCompareStarts(t *testing.T) {
	launched := func(ticks uint64, clock int64) *protocol.Facts {
		return &protocol.Facts{Started: clock, Launcher: protocol.Identity{PID: int(ticks), Start: ticks, Namespace: 1}}
	}
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
		"of a gateway":             {launched(50, 4), ofGateway, 1},
		"the same":                 {launched(100, 4), launched(100, 4), 0},
	} {
		if got := compareStarts(c.a, c.b); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
