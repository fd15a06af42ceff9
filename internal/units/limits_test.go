// SPDX-License-Identifier: Apache-2.0

package units

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// A limit that no server of the unit can have is known before the service runs.
func TestLimitNotes(t *testing.T) {
	all := hierarchy{mount: "/sys/fs/cgroup", controllers: []string{"cpu", "memory", "pids"}}
	none := hierarchy{mount: "/sys/fs/cgroup", isHybrid: true}
	const without = "servers will run without a limit: "
	const subgroup = "DelegateSubgroup= in the unit (systemd 254), or limit the whole unit"
	for name, c := range map[string]struct {
		service systemd.Service
		lines   string
		flags   string
		host    hierarchy
		want    string
	}{
		"no limit":             {systemd.Service{}, "", "--replace=true", none, ""},
		"root":                 {systemd.Service{}, "", "--memory-max=200M", all, ""},
		"a hybrid host":        {systemd.Service{}, "", "--memory-max=200M --pids-max=9", none, without + "memory.max, pids.max: their groups have no controller memory, pids; for limits of memory, pids: boot with systemd.unified_cgroup_hierarchy=1: now cgroup v1 has them"},
		"dynamic user":         {systemd.Service{DynamicUser: true}, "", "--cpu-max=50%", all, without + "cpu.max: their groups have no controller cpu; for limits of cpu: " + subgroup},
		"user without manager": {systemd.Service{User: "no-such-user"}, "", "--memory-max=1G", all, without + "memory.max: their groups have no controller memory; for limits of memory: " + subgroup},
		"with a subgroup":      {systemd.Service{DynamicUser: true}, "DelegateSubgroup=main\n", "--cpu-max=50%", all, ""},
		"backend of a flag":    {systemd.Service{}, "", "--backend=delegated --memory-max=1G", all, without + "memory.max: their groups have no controller memory; for limits of memory: " + subgroup},
		"backend tree":         {systemd.Service{}, "", "--backend=tree --memory-max=1G", all, without + "memory.max: their groups have no controller memory"},
	} {
		s := serviceOf(fragment("ExecStart=/bin/g\n" + c.lines))
		s.Service = c.service
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got := s.limitNotes(strings.Fields(c.flags), c.host); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
