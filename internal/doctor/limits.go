// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// limitControllers are the controllers of the limits that flags and settings files have names for.
var limitControllers = []string{"cpu", "memory", "pids"}

// inapplicableLimits lists the limits that lack their controller in a trial: with one of them mcpscope run
// starts nothing.
func inapplicableLimits(limits []settings.PlacedLimit, t Trial) (lines []string) {
	for _, limit := range limits {
		if limit.IsApplicable(t.Controllers) {
			continue
		}
		controller, _, _ := strings.Cut(limit.File, ".")
		const text = "%s: %s cannot be applied: %s has no controller %s, so mcpscope run starts nothing; " +
			"below a gateway servers start without it"
		lines = append(lines, fmt.Sprintf(text, limit.Place, limit, t.Backend, controller))
	}
	return lines
}

// missingControllers returns those of limitControllers that servers do not get in this trial.
func (t Trial) missingControllers() []string {
	return slices.DeleteFunc(slices.Clone(limitControllers), func(controller string) bool {
		return slices.Contains(t.Controllers, controller)
	})
}

// limitsText lists the resources that can be limited.
func (t Trial) limitsText() string {
	possible := t.limitable()
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
	return group.StepForControllers(t.Backend, missing, cgroup.Mount, cgroup.Hybrid)
}
