// SPDX-License-Identifier: Apache-2.0

package containment

import (
	"fmt"
	"slices"
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

// Lines describes the reports of the watchers of a choice of users. problems are servers that are not
// contained, limits that servers do not have, and what could not be watched; daemons are those of gateways.
// The texts may be anything.
func Lines(t *proc.Table, users group.Users) (problems, daemons []string) {
	for _, g := range gateway.List(t, users) {
		problems = append(problems, problemsOf(g)...)
		daemons = append(daemons, daemonsOf(g, users)...)
	}
	return problems, daemons
}

// LinesOf describes the report of the watcher of one gateway.
func LinesOf(t *proc.Table, users group.Users, pid int) (lines []string) {
	for _, g := range gateway.List(t, users) {
		if g.PID == pid {
			lines = slices.Concat(problemsOf(g), daemonsOf(g, users))
		}
	}
	return lines
}

func problemsOf(g gateway.Running) (lines []string) {
	if outside := g.Notices.Living(); len(outside) > 0 {
		lines = append(lines, outsideLine(labelOf(g), outside, g.Notices.More))
	}
	for _, note := range g.Notices.Notes {
		lines = append(lines, cli.OneLine(labelOf(g)+": "+note))
	}
	return lines
}

// daemonsOf is a line about the daemons of a gateway, if it has some.
func daemonsOf(g gateway.Running, users group.Users) []string {
	daemons := g.Daemons()
	if len(daemons) == 0 {
		return nil
	}
	const text = "%s: its daemon %s goes on without it; its servers are contained " +
		"(mcpscope ls%s --client %s)"
	whose := ""
	if users.IsEveryone() {
		whose = " --all-users"
	}
	line := fmt.Sprintf(text, labelOf(g), strings.Join(daemons, ", "), whose, g.Name)
	return []string{cli.OneLine(line)}
}

func labelOf(g gateway.Running) string { return fmt.Sprintf("%s[%d]", g.Name, g.PID) }

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
