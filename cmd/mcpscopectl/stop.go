// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

type stopFlags struct {
	selection.Filter
	all, yes bool
	grace    fleet.Grace
}

func stopCommand(stdio cli.Stdio) *cobra.Command {
	var f stopFlags
	c := command(spec{
		use: "stop NAME|ID… | --all | --client PID|NAME", short: "stop servers",
		also: "rm remove kill end", operands: serversAndSessions,
		examples: `  mcpscope stop git
  mcpscope stop --client hermes --grace 500ms
  mcpscope stop --project shop
  mcpscope stop --all --yes
`,
		long: `Stop servers: send SIGTERM to every member, wait for the grace period, and kill
the rest. The grace period is that of the server, but at most one minute.
Returns when no process is left, and prints one line per server. The beginning
of an ID is enough. With --all, or a --client whose name several clients have,
it lists the servers and asks before it stops them.

The name or id of a session stops its agent, by SIGTERM and after 5s by SIGKILL,
and all its servers. Of several sessions with one name, give an id. A process
of a server or session cannot stop it: use another terminal.

The exit status is 0 if all of them were stopped.`,
	}, func(operands []string) int { return f.run(operands, stdio) })
	fs := c.Flags()
	fs.BoolVar(&f.all, "all", false, "all servers of the calling user")
	addFilter(c, &f.Filter)
	fs.Func("grace", "shorten the time from SIGTERM to SIGKILL to `D`; 0 kills at once",
		readBy(&f.grace, parseStopGrace))
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

func (f *stopFlags) run(operands []string, stdio cli.Stdio) int {
	switch {
	case len(operands) == 0 && !f.all && !f.IsNarrow():
		return stdio.Mistake("stop", "no server given: add a name, an id, --all, --client or --project")
	case len(operands) > 0 && f.all:
		return stdio.Mistake("stop", "--all and server names exclude each other")
	}
	chosen, err := f.choose(operands)
	if err != nil {
		return stdio.Cannot("stop", err)
	}
	defer chosen.Close()
	if len(chosen.Servers) == 0 && len(chosen.Sessions) == 0 {
		return f.stopNone(chosen.Unlisted, stdio)
	}
	if status := f.confirm(chosen.Servers, stdio); status != cli.ExitOK {
		return status
	}
	return f.stop(chosen, stdio)
}

// stopNone reports that there is no server to stop. unlisted is why servers may be missing in the list.
func (f *stopFlags) stopNone(unlisted error, stdio cli.Stdio) int {
	noteOthers(&f.Filter, "ls", stdio)
	switch {
	case f.IsNarrow(): // it can be a typing error
		return stdio.CannotWithHint("stop", errors.New("there are "+f.None()), "mcpscope ls")
	case unlisted != nil:
		return stdio.Cannot("stop all servers", unlisted)
	}
	stdio.None(f.None())
	return cli.ExitOK
}

// confirm asks before a command stops servers that a person may not think of.
func (f *stopFlags) confirm(servers []*fleet.Listed, stdio cli.Stdio) int {
	clients := f.clientsOf(servers)
	isWide := f.all || clients > 1
	if !isWide || f.yes {
		return cli.ExitOK
	}
	render.WriteServers(stdio.Out, render.MeasureAll(servers), nil, f.AllUsers)
	question := "Stop " + cli.Counted(len(servers), "server")
	confirmed := "mcpscope stop --all --yes"
	if clients > 1 {
		question += " of " + cli.Counted(clients, "client")
		confirmed = "add --yes, or stop those of one client: --client PID"
	}
	if !stdio.Confirmed(question + "?") {
		return stdio.Unconfirmed("stop", confirmed)
	}
	return cli.ExitOK
}

func (f *stopFlags) stop(chosen *selection.Chosen, stdio cli.Stdio) int {
	stop := serverAction{
		verb: "stop",
		do: oneLine("stopped", nameAndID, func(s *fleet.Listed) error {
			return stopServer(s, f.grace)
		}),
		doSession: oneLine("stopped", sessionAndID, func(s *fleet.Session) error {
			return s.Stop(f.grace)
		}),
	}
	status := stop.runOn(chosen, stdio)
	if chosen.Unlisted != nil {
		return stdio.Cannot("stop all servers", chosen.Unlisted)
	}
	return status
}

// clientsOf counts the clients that have the name which the filter asks for. Their number is 0 without one. A
// person who stops the servers of a client may not think of its other windows.
func (f *stopFlags) clientsOf(servers []*fleet.Listed) int {
	if f.Client == "" {
		return 0
	}
	clients := map[protocol.Identity]bool{}
	for _, s := range servers {
		clients[s.ClientProcess()] = true
	}
	return len(clients)
}

func parseStopGrace(text string) (fleet.Grace, error) {
	d, err := cli.ParseGrace(text)
	return fleet.AtMost(d), err
}

// choose returns what operands name, or the servers that the filter lets through.
func (f *stopFlags) choose(operands []string) (*selection.Chosen, error) {
	if len(operands) > 0 {
		return f.ChooseAny(operands)
	}
	return f.ChooseAll()
}

// stopServer records the request in the journal before the server can end.
func stopServer(s *fleet.Listed, grace fleet.Grace) error {
	s.LogStop(ownCommandLine())
	return s.Stop(grace)
}

// ownCommandLine is this command, and the process that has started it.
func ownCommandLine() string {
	text := "mcpscope " + strings.Join(os.Args[1:], " ")
	parents := fleet.Ancestry(os.Getppid())
	if len(parents) > 0 {
		text += fmt.Sprintf(", from %s[%d]", parents[0].Comm, parents[0].PID)
	}
	return text
}
