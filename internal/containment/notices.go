// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"fmt"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// CountUncontained counts the servers of gateways of a choice of users that run and are not contained.
func CountUncontained(t *proc.Table, users group.Users) (count int) {
	for _, g := range gateway.List(t, users) {
		count += len(g.Notices.Living())
	}
	return count
}

// Lines describes the reports of the watchers of a choice of users: which servers are not contained,
// and why. The texts may be anything.
func Lines(t *proc.Table, users group.Users) (lines []string) {
	for _, g := range gateway.List(t, users) {
		lines = append(lines, linesOf(g, users)...)
	}
	return lines
}

// LinesOf describes the report of the watcher of one gateway.
func LinesOf(t *proc.Table, users group.Users, pid int) (lines []string) {
	for _, g := range gateway.List(t, users) {
		if g.PID == pid {
			lines = append(lines, linesOf(g, users)...)
		}
	}
	return lines
}

func linesOf(g gateway.Running, users group.Users) (lines []string) {
	label := fmt.Sprintf("%s[%d]", g.Name, g.PID)
	if outside := g.Notices.Living(); len(outside) > 0 {
		lines = append(lines, outsideLine(label, outside, g.Notices.More))
	}
	for _, note := range g.Notices.Notes {
		lines = append(lines, cli.OneLine(label+": "+note))
	}
	if daemons := g.Daemons(); len(daemons) > 0 {
		const text = "%s: its daemon %s goes on without it; its servers are contained " +
			"(mcpscope ls%s --client %s)"
		whose := ""
		if users.IsEveryone() {
			whose = " --all-users"
		}
		line := fmt.Sprintf(text, label, strings.Join(daemons, ", "), whose, g.Name)
		lines = append(lines, cli.OneLine(line))
	}
	return lines
}

func outsideLine(gateway string, outside []gateway.Outside, more int) string {
	var commands []string
	for _, o := range outside {
		commands = append(commands, fmt.Sprintf("%s[%d]", o.Command, o.Process.PID))
	}
	count := cli.Counted(len(outside), "server")
	if more > 0 {
		count += " or more"
	}
	last := outside[len(outside)-1]
	listed := strings.Join(commands, ", ")
	return cli.OneLine(fmt.Sprintf("%s of %s not contained: %s (%s)", count, gateway, listed, last.Why))
}
