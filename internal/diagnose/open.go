// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/units"
)

// openGateway is a running gateway whose servers are not contained.
type openGateway struct {
	Unit   string `json:"unit"` // or the path of its control group, outside of any unit
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

const noGroup = "no server of it can get a group; its log has the reason"

// openGateways lists services with a drop-in of mcpscope, and other gateways. Root sees those of all users.
func openGateways() (open []openGateway) {
	var services []string
	if dir, err := units.Dir(); err == nil { // without one there are no services
		services = units.Gateways(dir)
	}
	for _, unit := range services {
		c, err := units.LookAtContainment(systemd.Own(), unit)
		if err == nil && c.State == containment.Uncontained { // others do not run
			open = append(open, openGateway{Unit: unit, Reason: c.Reason, Remedy: c.Remedy})
		}
	}
	for _, group := range containment.UncontainedGroups(os.Getuid()) {
		name := group
		if unit, _, ok := systemd.UnitOf(group, os.Getuid()); ok {
			name = unit
		}
		if !slices.Contains(services, name) {
			open = append(open, openGateway{Unit: name, Reason: noGroup})
		}
	}
	return open
}

func (g openGateway) text() string {
	name := strings.TrimSuffix(g.Unit, ".service")
	return cli.OneLine(name) + ": its servers are NOT contained: " + g.Reason
}
