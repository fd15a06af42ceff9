// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// agents are programs that start MCP servers and tools in a terminal.
var agents = strings.Fields(`amp auggie claude cline cn codex copilot crush cursor-agent droid gemini goose
	hermes kilo kimi opencode qodercli qwen`)

// commandOf is the command of an agent to put behind mcpscope.
func commandOf(agent string) string {
	if agent == "codex" { // otherwise its daemon has the servers
		return "codex --no-daemon"
	}
	return agent
}

// Agent is one that runs, and is neither below mcpscope gateway nor in a group of mcpscope run.
type Agent struct {
	PID     int    `json:"pid"`
	Name    string `json:"name"`
	Project string `json:"project,omitempty"` // the base name of its directory
	Remedy  string `json:"remedy"`
}

func (a *Agent) text() string {
	text := fmt.Sprintf("%s[%d]", a.Name, a.PID)
	if a.Project != "" {
		text += " in " + a.Project
	}
	return text + " runs without mcpscope"
}

// agentsOutside finds the agents of this user that run without mcpscope. Names of processes prove nothing.
func agentsOutside() (found []Agent) {
	around := gateway.Around()
	seen := map[int]bool{}
	_ = proc.Each(func(pid int) bool { // none, without /proc
		status, err := proc.ReadStatus(pid)
		if err != nil || status.UID[0] != os.Getuid() {
			return true
		}
		called := agentName(pid)
		if called == "" || isContained(pid) {
			return true
		}
		if _, below := around.Of(pid); below {
			return true
		}
		seen[pid] = true
		dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)) // "" if it can't be read
		one := Agent{PID: pid, Name: called, Project: protocol.OriginOf(dir, nil).Project}
		command := commandOf(called)
		one.Remedy = fmt.Sprintf("next time: mcpscope gateway -- %s (its servers end with it), "+
			"or mcpscope run -- %s (all that it starts does)", command, command)
		found = append(found, one)
		return true
	})
	return slices.DeleteFunc(found, func(a Agent) bool { return isPartOf(a, seen) })
}

// agentName is the name of the agent that a process is, "" for none. An interpreter may run it.
func agentName(pid int) string {
	argv := proc.Arguments(pid, protocol.CommandMost)
	if len(argv) == 0 {
		return ""
	}
	called := path.Base(argv[0])
	if called == "node" || called == "bun" {
		called = name.Derive(argv)
	}
	if slices.Contains(agents, called) {
		return called
	}
	return ""
}

// isContained reports whether a process is in a group of mcpscope.
func isContained(pid int) bool {
	where, _ := proc.ReadCgroup(pid) // "", if it has ended
	return slices.ContainsFunc(strings.Split(where, "/"), protocol.IsGroup)
}

// isPartOf reports whether the parent of an agent's process is an agent, too: it has several processes.
func isPartOf(a Agent, all map[int]bool) bool {
	st, err := proc.ReadStat(a.PID)
	return err == nil && all[st.PPID]
}
