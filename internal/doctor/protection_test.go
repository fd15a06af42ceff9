// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Who wraps servers hears what this host cannot do, and nothing where it can do all.
func TestProtection(t *testing.T) {
	for want, trial := range map[string]Trial{
		"":                                {Backend: names.SystemdUser, Group: true, Position: Position{Controllers: []string{"cpu", "io", "memory", "pids"}}},
		"cgroup: no (tree); limits: no; ": {Backend: names.Tree},
		"cgroup: yes; limits: no (no controller for cpu, memory, pids); ": {Backend: names.Cgroup, Group: true},
		"cgroup: yes; limits: memory, pids (no controller for cpu); ":     {Backend: names.SystemdUser, Group: true, Position: Position{Controllers: []string{"memory", "pids"}}},
	} {
		got := trial.protection()
		if (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
