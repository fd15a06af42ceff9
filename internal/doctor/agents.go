// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// addAgents adds the agents of this user that are neither below mcpscope gateway nor in a group of run.
func (d *Diagnosis) addAgents(t *proc.Table) {
	for _, a := range containment.Agents(t) {
		if !a.Inside {
			d.add(agentProblem(a.PID, a.Name, protocol.OriginOf(a.Dir, nil).Project))
		}
	}
}

// agentProblem names the project, the base name of its directory, if there is one.
func agentProblem(pid int, agent, project string) host.Problem {
	what := fmt.Sprintf("%s[%d]", agent, pid)
	if project != "" {
		what += " in " + project
	}
	command := name.ProgramOf(agent).CommandLine()
	const fix = "next time: mcpscope gateway -- %s (its servers end with it), " +
		"or mcpscope run -- %s (all that it starts does)"
	return host.Problem{
		Capability: host.Agents, What: what + " runs without mcpscope",
		Fix: fmt.Sprintf(fix, command, command), Minor: true,
	}
}
