// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// DaemonLines are about agents in groups of mcpscope run that have started a daemon of their own: it ends
// with the first conversation, and others that use it stop working. A daemon leads a process session
// (setsid(2)) and has the agent's name.
func DaemonLines(servers []*fleet.Listed) (lines []string) {
	for _, s := range servers {
		agent := name.ProgramOf(s.Facts.Name)
		if !agent.Daemon || s.Kept != nil {
			continue
		}
		pid, found := findDaemon(s)
		if !found {
			continue
		}
		const text = "%s (%s): its daemon [%d] is in its group, and ends with it; " +
			"other conversations that use the daemon would stop working"
		line := fmt.Sprintf(text, s.Facts.Name, s.Placed.ID, pid)
		if agent.WithoutDaemon != "" {
			line += ": mcpscope run -- " + agent.WithoutDaemon
		}
		lines = append(lines, cli.OneLine(line))
	}
	return lines
}

// findDaemon finds a member that leads a process session and has the agent's name: see DaemonLines.
func findDaemon(agent *fleet.Listed) (pid int, found bool) {
	pids, _ := agent.Handle.Processes() // none, if it has ended
	for _, pid := range pids {
		sid, err := unix.Getsid(pid)
		if err != nil || sid != pid {
			continue
		}
		if name.Derive(proc.Arguments(pid, protocol.CommandMost)) == agent.Facts.Name {
			return pid, true
		}
	}
	return 0, false
}
