// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// limitControllers are those of the limits that flags and settings files have names for.
var limitControllers = []string{"cpu", "memory", "pids"}

// readLimits compares the limits for all servers in settings files with the controllers of the backend.
// Without them mcpscope run fails, unless limits is best-effort.
func (d *diagnosis) readLimits() {
	v := settings.Defaults()
	v.FromFile(settings.ReadFiles().For(""))
	d.limitsMayFail = v.Limits.BestEffort
	for _, t := range d.Backends {
		if t.Backend != d.Backend {
			continue
		}
		for _, limit := range v.Inapplicable(t.Controllers) {
			controller, _, _ := strings.Cut(limit.File, ".")
			const text = "%s cannot be applied: %s has no controller %s"
			d.Limits = append(d.Limits, fmt.Sprintf(text, limit, t.Backend, controller))
		}
	}
}

// missingControllers are those of the limits that servers cannot have in this trial.
func (t Trial) missingControllers() []string {
	return slices.DeleteFunc(slices.Clone(limitControllers), func(c string) bool {
		return slices.Contains(t.Controllers, c)
	})
}

// giveControllers returns how the servers of a backend get the controllers that they lack, "" if they lack
// none or there is no way.
func (d *diagnosis) giveControllers(t Trial) string {
	missing := t.missingControllers()
	if !t.Group || len(missing) == 0 {
		return ""
	}
	limits := "for limits of " + strings.Join(missing, ", ") + ": "
	if d.Host.Cgroup.Hybrid {
		return limits + "boot with systemd.unified_cgroup_hierarchy=1: now cgroup v1 has them"
	}
	switch t.Backend {
	case protocol.SystemdUser:
		return limits + "sudo systemctl edit user@.service, " +
			"with the lines [Service] and Delegate=cpu memory pids io; then reboot"
	case protocol.Delegated:
		return limits + "DelegateSubgroup= in the unit (systemd 254), or limit the whole unit"
	case protocol.Cgroup:
		const enable = "as root, echo '+%s' > %s/cgroup.subtree_control"
		return limits + fmt.Sprintf(enable, strings.Join(missing, " +"), d.Host.Cgroup.Mount)
	}
	return ""
}
