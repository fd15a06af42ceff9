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

// uncontainedGateway is a running gateway whose servers are not contained.
type uncontainedGateway struct {
	Unit   string `json:"unit"` // or the path of its control group, outside of any unit
	Reason string `json:"reason"`
	Remedy string `json:"remedy,omitempty"`
}

const noGroup = "no server of it can get a group; its log has the reason"

// uncontainedGateways lists services with a drop-in of mcpscope, and other gateways. Root sees those of all
// users.
func uncontainedGateways() (all []uncontainedGateway) {
	var services []string
	if dir, err := units.Dir(); err == nil { // without one there are no services
		services = units.Gateways(dir)
	}
	running, _ := units.RunningGateways(systemd.Own()) // none, without a manager
	services = append(services, running...)
	slices.Sort(services)
	services = slices.Compact(services)
	for _, unit := range services {
		c, err := units.LookAtContainment(systemd.Own(), unit)
		if err == nil && c.State == containment.Uncontained { // others do not run
			all = append(all, uncontainedGateway{Unit: unit, Reason: c.Reason, Remedy: c.Remedy})
		}
	}
	for _, group := range containment.UncontainedGroups(os.Getuid()) {
		name := group
		if unit, _, ok := systemd.UnitOf(group, os.Getuid()); ok {
			name = unit
		}
		if !slices.Contains(services, name) {
			all = append(all, uncontainedGateway{Unit: name, Reason: noGroup})
		}
	}
	return all
}

func (g uncontainedGateway) text() string {
	name := strings.TrimSuffix(g.Unit, ".service")
	return cli.OneLine(name) + ": its servers are NOT contained: " + g.Reason
}

// changedGateway is a service with a drop-in that runs another command than its unit files have now.
type changedGateway struct {
	Unit   string `json:"unit"`
	Remedy string `json:"remedy"`
}

// changedGateways lists services whose drop-in must be installed again.
func changedGateways() (all []changedGateway) {
	dir, err := units.Dir()
	if err != nil { // there are no services
		return nil
	}
	for _, unit := range units.Gateways(dir) {
		changed, err := units.CommandHasChanged(systemd.Own(), unit)
		if err != nil || !changed { // without a manager no command runs
			continue
		}
		name := strings.TrimSuffix(unit, ".service")
		remedy := "mcpscope units --unit " + name + " --install --now"
		all = append(all, changedGateway{Unit: unit, Remedy: remedy})
	}
	return all
}

func (g changedGateway) text() string {
	name := strings.TrimSuffix(g.Unit, ".service")
	return cli.OneLine(name) + ": its command has changed since the drop-in was written"
}
