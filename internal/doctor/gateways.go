// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// addGateways lists the running gateways with the number of their servers, and what their watchers report:
// problems, and daemons.
func (d *Diagnosis) addGateways(t *proc.Table) {
	isRoot := d.UID == 0
	users := selection.Whose(isRoot) // root sees those of all users
	servers, _ := fleet.List(users)  // no server, where groups cannot be listed
	defer selection.Close(servers)
	for _, g := range gw.List(t, users) {
		count := 0
		for _, s := range servers {
			if g.IsClient(s.ClientProcess()) {
				count++
			}
		}
		d.Gateways = append(d.Gateways, cli.OneLine(gatewayText(&g, serviceOf(g.PID), count)))
	}
	if len(d.Gateways) > 0 && !isRoot {
		const note = "sudo and other setuid programs do not work below a gateway of a user (no_new_privs); " +
			"where they are needed, wrap the servers instead: mcpscope wrap"
		d.Gateways = append(d.Gateways, note)
	}
	problems, daemons := containment.Lines(t, users)
	for _, line := range problems {
		d.add(host.Problem{Capability: host.Gateways, What: line})
	}
	d.Gateways = slices.Concat(d.Gateways, daemons, containment.DaemonLines(servers))
}

func gatewayText(g *gw.Running, service string, servers int) string {
	text := fmt.Sprintf("%s[%d]", g.Name, g.PID)
	if service != "" {
		text += " of " + service
	}
	text += ": " + cli.Counted(servers, "server")
	switch {
	case g.HasEnded(): // its watcher waits some seconds for programs that are about to start
		return text + "; it has ended, and programs that it has started go on"
	case servers == 0:
		return text + "; see --explain PATH and --match GLOB"
	}
	return text
}

// serviceOf is the unit of a process, or "".
func serviceOf(pid int) string {
	group, err := proc.ReadCgroup(pid)
	status, errStatus := proc.ReadStatus(pid)
	if err != nil || errStatus != nil {
		return "" // it has ended
	}
	unit, _, _ := systemd.UnitOf(group, status.UID[0]) // "", outside of any
	if !strings.HasSuffix(unit, ".service") {
		return ""
	}
	return unit
}
