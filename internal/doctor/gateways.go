// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// runningGateway is a program that mcpscope gateway runs.
type runningGateway struct {
	name     string
	pid      int
	servers  int
	hasEnded bool
}

func (g runningGateway) text() string {
	text := fmt.Sprintf("%s[%d]: %s", g.name, g.pid, cli.Counted(g.servers, "server"))
	switch {
	case g.hasEnded:
		return text + "; it has ended, and a daemon or session of it goes on"
	case g.servers == 0:
		return text + "; see --explain PATH and --match GLOB"
	}
	return text
}

// gatewayLines lists the running gateways with the number of their servers, and the gateways and daemons
// whose servers are not contained.
func gatewayLines() []string {
	isRoot := os.Getuid() == 0
	uid := selection.Whose(isRoot) // root sees those of all users
	servers, _ := fleet.List(uid)  // no server, where groups cannot be listed
	defer selection.Close(servers)
	var lines []string
	for _, g := range gw.List(uid) {
		running := runningGateway{name: g.Name, pid: g.PID, hasEnded: g.HasEnded()}
		for _, s := range servers {
			if g.Starts(s.Client.PID) {
				running.servers++
			}
		}
		lines = append(lines, running.text())
	}
	if len(lines) > 0 && !isRoot {
		lines = append(lines, "sudo and other setuid programs do not work below a gateway of a user "+
			"(no_new_privs); where they are needed, wrap the servers instead: mcpscope wrap")
	}
	return slices.Concat(lines, containment.Lines(uid), containment.DaemonLines(servers))
}
