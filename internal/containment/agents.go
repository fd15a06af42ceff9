// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// Agent is a running agent.
type Agent struct {
	PID    int
	Name   string
	Client string // that has its configurations
	Dir    string // "" if it cannot be read
	// Inside reports that it is below mcpscope gateway, or in a group of mcpscope run.
	Inside bool
}

// Agents finds the agents of this user. Names of processes prove nothing.
func Agents(t *proc.Table) []Agent {
	around := gateway.Around(t)
	var found []Agent
	for _, p := range t.All() {
		agent := agentName(p.Arguments())
		if agent == "" {
			continue
		}
		pid := p.PID
		status, err := proc.ReadStatus(pid)
		if err != nil || status.UID[0] != os.Getuid() {
			continue
		}
		_, isBelowGateway := around.Of(pid)
		dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)) // "" if it can't be read
		inside := isBelowGateway || isInGroup(pid)
		found = append(found, Agent{
			PID: pid, Name: agent, Client: name.ClientOf(agent), Dir: dir, Inside: inside,
		})
	}
	return withoutParts(found)
}

// agentName is the name of the agent that a command line starts, "" for no agent. An interpreter may run
// it.
func agentName(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	program := path.Base(argv[0])
	if program == "node" || program == "bun" {
		program = name.Derive(argv)
	}
	if !name.ProgramOf(program).Agent {
		return ""
	}
	return program
}

// isInGroup reports whether a process is in a group of mcpscope, or in a tree of it.
func isInGroup(pid int) bool {
	soft, _ := proc.FileLocks(pid) // no tag, if it has ended
	group, _ := proc.ReadCgroup(pid)
	return freeze.Tag(soft).IsTag() || slices.ContainsFunc(strings.Split(group, "/"), names.IsGroup)
}

// withoutParts leaves out each process whose parent is an agent, too: an agent can have several processes.
func withoutParts(agents []Agent) []Agent {
	pids := map[int]bool{}
	for _, a := range agents {
		pids[a.PID] = true
	}
	var whole []Agent
	for _, a := range agents {
		st, err := proc.ReadStat(a.PID)
		isPart := err == nil && pids[st.PPID]
		if !isPart {
			whole = append(whole, a)
		}
	}
	return whole
}

// ClientsInside returns the clients of this user that run below mcpscope at this moment, and only there. The
// value names a process of the client: NAME[PID].
func ClientsInside(t *proc.Table) map[string]string {
	return insideOf(Agents(t), gateway.List(t, group.CallingUser()))
}

func insideOf(agents []Agent, gateways []gateway.Running) map[string]string {
	inside := map[string]string{}
	add := func(client, program string, pid int) {
		if inside[client] == "" {
			inside[client] = cli.OneLine(fmt.Sprintf("%s[%d]", program, pid))
		}
	}
	for _, a := range agents {
		if a.Inside {
			add(a.Client, a.Name, a.PID)
		}
	}
	for _, g := range gateways {
		if !g.HasEnded() {
			add(name.ClientOf(g.Name), g.Name, g.PID)
		}
	}
	for _, a := range agents {
		if !a.Inside {
			delete(inside, a.Client)
		}
	}
	return inside
}
