// SPDX-License-Identifier: Apache-2.0

package group

import (
	"fmt"
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/names"
)

// IsHybrid reports whether cgroup v1 is mounted, too: then v1 has controllers that groups of v2 lack.
func IsHybrid() bool {
	hierarchies, _ := os.ReadFile("/proc/self/cgroup") // "" without /proc
	return strings.Count(string(hierarchies), "\n") > 1
}

// StepForControllers returns how the groups of a backend get controllers that they lack, or "" if there is no
// way. mount is that of cgroup2.
func StepForControllers(b names.Backend, missing []string, mount string, isHybrid bool) string {
	limits := "for limits of " + strings.Join(missing, ", ") + ": "
	if isHybrid {
		return limits + "boot with systemd.unified_cgroup_hierarchy=1: now cgroup v1 has them"
	}
	switch b {
	case names.SystemdUser:
		return limits + "sudo systemctl edit user@.service, " +
			"with the lines [Service] and Delegate=cpu memory pids io; then reboot"
	case names.Delegated:
		return limits + "add DelegateSubgroup=main to the unit (systemctl edit; systemd 254), " +
			"or limit the whole unit"
	case names.Cgroup:
		const enable = "as root, echo '+%s' > %s/cgroup.subtree_control"
		return limits + fmt.Sprintf(enable, strings.Join(missing, " +"), mount)
	}
	return ""
}
