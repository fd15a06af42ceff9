// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/mcpscope/mcpscope/internal/logs"
	"github.com/mcpscope/mcpscope/internal/render"
)

// The age of a server that has ended is how long it ran, as its event says it, and not the time since its start.
func TestAgeOfAServerThatHasEnded(t *testing.T) {
	ended := time.Now().Add(-time.Hour)
	started := ended.Add(-30 * time.Second)
	past := endedView(&logs.EndedServer{ID: "a", Name: "past", Started: &started, Ended: ended})
	swept := endedView(&logs.EndedServer{ID: "b", Name: "swept", Ended: ended, Cause: logs.Swept})
	if past.Age != 30 || swept.Age != 0 {
		t.Errorf("ages of %v s and %v s, want 30 and 0", past.Age, swept.Age)
	}
	var out bytes.Buffer
	render.WriteServers(&out, []render.Server{past, swept}, nil, false)
	table := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{" past ended 30s 1h0m ago ", " swept ended - 1h0m ago swept "} { // its start is unknown
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
