// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"fmt"
	"slices"
	"testing"
)

// The limits of wrapped servers are in their flags and variables, with the line of the command.
func TestLimits(t *testing.T) {
	h := newHome(t)
	h.write(".cursor/mcp.json", fmt.Sprintf(`{"mcpServers": {
  "bare": {"command": "x", "args": ["run", "--memory-max", "1G", "--", "y"]},
  "flag": {
    "command": %[1]q, "args": ["run", "--memory-max", "1G", "--", "y"]},
  "variable": {"command": %[1]q, "args": ["run", "--", "y"], "env": {"MCPSCOPE_PIDS_MAX": "9"}},
  "none": {"command": %[1]q, "args": ["run", "--", "y"]},
  "broken": {"command": %[1]q, "args": ["run", "--memory-mx", "1G", "--", "y"]}
}}`, h.program))
	found, err := NewSearch().Everywhere()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range found.Limits() {
		got = append(got, l.Place+" "+l.String())
	}
	file := h.path(".cursor/mcp.json")
	want := []string{file + ":4 memory.max=1073741824", file + ":5 pids.max=9"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
