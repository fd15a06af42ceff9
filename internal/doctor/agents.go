// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// agentNames are the names of programs that start MCP servers and tools in a terminal.
var agentNames = strings.Fields(`amp auggie claude cline cn codex copilot crush cursor-agent droid gemini
	goose hermes kilo kimi opencode qodercli qwen`)

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

// agentsOutside finds the agents of this user that run without mcpscope. Names of processes prove nothing.
func agentsOutside() []Agent {
	around := gateway.Around()
	var found []Agent
	_ = proc.Each(func(pid int) bool { // no process, without /proc
		status, err := proc.ReadStatus(pid)
		if err != nil || status.UID[0] != os.Getuid() {
			return true
		}
		agent := agentName(proc.Arguments(pid, protocol.CommandMost))
		if agent == "" || isContained(pid) {
			return true
		}
		_, isBelowGateway := around.Of(pid)
		if isBelowGateway {
			return true
		}
		dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)) // "" if it can't be read
		found = append(found, newAgent(pid, agent, protocol.OriginOf(dir, nil).Project))
		return true
	})
	return withoutParts(found)
}

// agentName is the name of the agent that a command line starts, "" for no agent. An interpreter may run it.
func agentName(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	program := path.Base(argv[0])
	if program == "node" || program == "bun" {
		program = name.Derive(argv)
	}
	if !slices.Contains(agentNames, program) {
		return ""
	}
	return program
}

// isContained reports whether a process is in a group of mcpscope.
func isContained(pid int) bool {
	group, _ := proc.ReadCgroup(pid) // "", if it has ended
	return slices.ContainsFunc(strings.Split(group, "/"), names.IsGroup)
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
