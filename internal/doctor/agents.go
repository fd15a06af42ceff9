// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"

	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Agent is a running agent that is neither below mcpscope gateway nor in a group of mcpscope run.
type Agent struct {
	PID     int    `json:"pid"`
	Name    string `json:"name"`
	Project string `json:"project,omitempty"` // the base name of its directory
	Remedy  string `json:"remedy"`
}

func newAgent(pid int, agent, project string) Agent {
	command := agent
	if agent == "codex" {
		command = "codex --no-daemon" // otherwise its daemon has the servers
	}
	const text = "next time: mcpscope gateway -- %s (its servers end with it), " +
		"or mcpscope run -- %s (all that it starts does)"
	remedy := fmt.Sprintf(text, command, command)
	return Agent{PID: pid, Name: agent, Project: project, Remedy: remedy}
}

func (a *Agent) text() string {
	text := fmt.Sprintf("%s[%d]", a.Name, a.PID)
	if a.Project != "" {
		text += " in " + a.Project
	}
	return text + " runs without mcpscope"
}

// agentsOutside finds the agents of this user that run without mcpscope.
func agentsOutside() []Agent {
	var outside []Agent
	for _, a := range containment.Agents() {
		if !a.Inside {
			outside = append(outside, newAgent(a.PID, a.Name, protocol.OriginOf(a.Dir, nil).Project))
		}
	}
	return outside
}
