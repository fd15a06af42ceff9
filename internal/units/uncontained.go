// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// UncontainedGateway is a running gateway whose servers are not contained, or only without cgroups.
type UncontainedGateway struct {
	Unit   string            `json:"unit"` // or the path of its control group, outside of any unit
	State  containment.State `json:"state"`
	Reason string            `json:"reason"`
	Remedy string            `json:"remedy,omitempty"`
}

const noGroup = "no server of it can get a group; its log has the reason"

// UncontainedGateways lists services with a drop-in of mcpscope, and other gateways. Root sees those of all
// users.
func UncontainedGateways() (gateways []UncontainedGateway) {
	var services []string
	dir, err := Dir()
	if err == nil { // without one there are no services
		services = Gateways(dir)
	}
	running, _ := RunningGateways(systemd.Own()) // none, without a manager
	services = append(services, running...)
	slices.Sort(services)
	services = slices.Compact(services)
	for _, unit := range services {
		c, err := lookAtContainment(systemd.Own(), unit)
		isLacking := c.State == containment.Uncontained || c.State == containment.Weaker
		if err == nil && isLacking { // others do not run
			g := UncontainedGateway{Unit: unit, State: c.State, Reason: c.Reason, Remedy: c.Remedy}
			gateways = append(gateways, g)
		}
	}
	for _, path := range containment.UncontainedGroups(proc.Take(), visibleUsers()) {
		name := path
		if unit, _, ok := systemd.UnitOf(path, os.Getuid()); ok {
			name = unit
		}
		if !slices.Contains(services, name) {
			g := UncontainedGateway{Unit: name, State: containment.Uncontained, Reason: noGroup}
			gateways = append(gateways, g)
		}
	}
	return gateways
}

// visibleUsers is everyone for root, and otherwise the calling user.
func visibleUsers() group.Users {
	if os.Getuid() == 0 {
		return group.Everyone()
	}
	return group.CallingUser()
}
