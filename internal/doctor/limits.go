// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// limitControllers are those of the limits that flags and settings files have names for.
var limitControllers = []string{"cpu", "memory", "pids"}

// inapplicableLimits lists the limits for all servers in settings files that lack their controller in a
// trial. With such a limit mcpscope run fails, unless limits is best-effort.
func inapplicableLimits(defaults *settings.Values, t Trial) (lines []string) {
	for _, limit := range defaults.Inapplicable(t.Controllers) {
		controller, _, _ := strings.Cut(limit.File, ".")
		const text = "%s cannot be applied: %s has no controller %s"
		lines = append(lines, fmt.Sprintf(text, limit, t.Backend, controller))
	}
	return lines
}

// missingControllers are those of the limits that servers cannot have in this trial.
func (t Trial) missingControllers() []string {
	return slices.DeleteFunc(slices.Clone(limitControllers), func(controller string) bool {
		return slices.Contains(t.Controllers, controller)
	})
}

// limitsText lists the resources that can be limited.
func (t Trial) limitsText() string {
	possible := slices.DeleteFunc(slices.Clone(t.Controllers), func(controller string) bool {
		return !slices.Contains(limitControllers, controller)
	})
	switch {
	case !t.Group:
		return ""
	case len(possible) == 0:
		return "; no limits: the controllers cpu, memory and pids are not available"
	}
	return "; limits possible: " + strings.Join(possible, ", ")
}

// remedyForControllers returns how the servers of a backend get the controllers that they lack. It is "" if
// they lack no controller, or if there is no way.
func remedyForControllers(t Trial, cgroup Cgroup) string {
	missing := t.missingControllers()
	if !t.Group || len(missing) == 0 {
		return ""
	}
	limits := "for limits of " + strings.Join(missing, ", ") + ": "
	if cgroup.Hybrid {
		return limits + "boot with systemd.unified_cgroup_hierarchy=1: now cgroup v1 has them"
	}
	switch t.Backend {
	case names.SystemdUser:
		return limits + "sudo systemctl edit user@.service, " +
			"with the lines [Service] and Delegate=cpu memory pids io; then reboot"
	case names.Delegated:
		return limits + "DelegateSubgroup= in the unit (systemd 254), or limit the whole unit"
	case names.Cgroup:
		const enable = "as root, echo '+%s' > %s/cgroup.subtree_control"
		return limits + fmt.Sprintf(enable, strings.Join(missing, " +"), cgroup.Mount)
	}
	return ""
}
