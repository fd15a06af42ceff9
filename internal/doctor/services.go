// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/units"
)

// serviceName returns the name of a service as people type it.
func serviceName(unit string) string { return strings.TrimSuffix(unit, ".service") }

func uncontainedText(g units.UncontainedGateway) string {
	how := "NOT contained"
	if g.State == containment.Weaker {
		how = "contained without cgroups, which is weaker"
	}
	return cli.OneLine(serviceName(g.Unit)) + ": its servers are " + how + ": " + g.Reason
}

// ChangedGateway is a service with a drop-in that runs another command than its unit files have now.
type ChangedGateway struct {
	Unit   string `json:"unit"`
	Remedy string `json:"remedy"`
}

func (g ChangedGateway) text() string {
	return cli.OneLine(serviceName(g.Unit)) + ": its command has changed since the drop-in was written"
}

// changedGateways lists services whose drop-in must be installed again.
func changedGateways() []ChangedGateway {
	dir, err := units.Dir()
	if err != nil { // there are no services
		return nil
	}
	var changed []ChangedGateway
	for _, unit := range units.Gateways(dir) {
		hasChanged, err := units.CommandHasChanged(systemd.Own(), unit)
		if err != nil || !hasChanged { // without a manager no command runs
			continue
		}
		remedy := "mcpscope units --unit " + serviceName(unit) + " --install --now"
		changed = append(changed, ChangedGateway{Unit: unit, Remedy: remedy})
	}
	return changed
}
