// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

// A session has the name of its agent, also behind mcpscope run.
func TestAgentName(t *testing.T) {
	for line, want := range map[string]string{
		"claude": "claude",
		"/usr/bin/mcpscope run --idle-freeze 10m -- claude -c": "claude",
		"mcpscopectl run -- claude":                            "claude",
		"mcpscope run":                                         "mcpscope",
		"mcpscope run --no-such-flag -- claude":                "mcpscope",
	} {
		if got := agentName(strings.Fields(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
