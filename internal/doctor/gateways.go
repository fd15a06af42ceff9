// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"

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
	service  string // "" outside of any
	// The fields below are those of a gateway that has ended.
	left        []string // processes of its service
	killCommand string   // ends these, and nothing else; or ""
}

func (g runningGateway) text() string {
	text := fmt.Sprintf("%s[%d]", g.name, g.pid)
	if g.service != "" {
		text += " of " + g.service
	}
	text += ": " + cli.Counted(g.servers, "server")
	switch {
	case g.hasEnded:
		return text + "; it has ended, and " + g.leftText()
	case g.servers == 0:
		return text + "; see --explain PATH and --match GLOB"
	}
	return text
}

func (g runningGateway) leftText() string {
	if len(g.left) == 0 { // a watcher waits some seconds for programs that are about to start
		return "programs that it has started may go on"
	}
	text := strings.Join(g.left, ", ") + " go on"
	object := "them"
	if len(g.left) == 1 {
		text = g.left[0] + " goes on"
		object = "it"
	}
	if g.killCommand == "" {
		return text
	}
	const start = "a server is contained from its start with --match GLOB or --config FILE"
	return fmt.Sprintf("%s; %s ends %s; %s", text, g.killCommand, object, start)
}

// gatewayLines lists the running gateways with the number of their servers, and the gateways and daemons
// whose servers are not contained.
func gatewayLines() []string {
	isRoot := os.Getuid() == 0
	users := selection.Whose(isRoot) // root sees those of all users
	servers, _ := fleet.List(users)  // no server, where groups cannot be listed
	defer selection.Close(servers)
	var lines []string
	for _, g := range gw.List(users) {
		running := runningGateway{name: g.Name, pid: g.PID, hasEnded: g.HasEnded()}
		for _, s := range servers {
			if g.IsClient(s.ClientProcess()) {
				running.servers++
			}
		}
		running.findService(g.Watcher)
		lines = append(lines, cli.OneLine(running.text()))
	}
	if len(lines) > 0 && !isRoot {
		lines = append(lines, "sudo and other setuid programs do not work below a gateway of a user "+
			"(no_new_privs); where they are needed, wrap the servers instead: mcpscope wrap")
	}
	return slices.Concat(lines, containment.Lines(users), containment.DaemonLines(servers))
}
