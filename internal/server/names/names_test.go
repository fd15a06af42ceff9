// SPDX-License-Identifier: Apache-2.0

package names

import (
	"strings"
	"testing"
)

// The name of a session is a slice directly below mcp.slice, and no group.
func TestSessionNames(t *testing.T) {
	for _, gateway := range []string{"claude", "claude-code", "a.b c", ""} {
		made := NewSession(gateway)
		if !IsSession(made) || IsGroup(made) || strings.Count(made, "-") != 1 {
			t.Errorf("the session of %q is called %q", gateway, made)
		}
	}
	for path, want := range map[string]string{
		"/mcp.slice/0/mcp-session_a_abcdefgh.slice/agent":                             "/mcp.slice/0/mcp-session_a_abcdefgh.slice",
		"/mcp.slice/mcp-session_a_abcdefgh.slice":                                     "/mcp.slice/mcp-session_a_abcdefgh.slice",
		"/mcp-session_a_abcdefgh.slice/x/mcp-session_b_abcdefgh.slice/mcp-c-abcdefgh": "/mcp-session_a_abcdefgh.slice/x/mcp-session_b_abcdefgh.slice",
		"/mcp.slice/mcp-session_a_abcdefg1.slice/agent":                               "", // 1 is in no id
		"/mcp.slice/mcp-session_a.slice/agent":                                        "",
		"/mcp.slice/0/mcp-session_a-abcdefgh":                                         "",
		"/":                                                                           "",
		"":                                                                            "",
	} {
		if got := SessionIn(path); got != want {
			t.Errorf("%q is in the session %q, want %q", path, got, want)
		}
	}
}
