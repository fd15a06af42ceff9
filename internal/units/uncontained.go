// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// UncontainedGateway is a running gateway whose servers are not contained.
type UncontainedGateway struct {
	Unit   string `json:"unit"` // or the path of its control group, outside of any unit
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
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
		if err == nil && c.State == containment.Uncontained { // others do not run
			gateways = append(gateways, UncontainedGateway{Unit: unit, Reason: c.Reason, Remedy: c.Remedy})
		}
	}
	for _, path := range containment.UncontainedGroups(visibleUsers()) {
		name := path
		if unit, _, ok := systemd.UnitOf(path, os.Getuid()); ok {
			name = unit
		}
		if !slices.Contains(services, name) {
			gateways = append(gateways, UncontainedGateway{Unit: name, Reason: noGroup})
		}
	}
	return gateways
}

// visibleUsers is the calling user and, for root, stands for all users.
func visibleUsers() int {
	if os.Getuid() == 0 {
		return group.Everyone
	}
	return os.Getuid()
}
