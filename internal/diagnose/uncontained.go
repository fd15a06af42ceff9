// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/units"
)

func uncontainedText(g units.UncontainedGateway) string {
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
