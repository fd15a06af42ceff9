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
	servers   selection.Selection
	yes       bool
	grace     fleet.Grace
	graceText string // as it was given
}

func stopCommand(stdio cli.Stdio) *cobra.Command { return stopCommandOf(&stopFlags{}, stdio) }

func stopCommandOf(f *stopFlags, stdio cli.Stdio) *cobra.Command {
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
of an ID is enough. With --all, or where a filter alone selects servers of
several clients, it lists the servers and asks before it stops them.

The name or id of a session stops its agent, by SIGTERM and after 5s by SIGKILL,
and all its servers. If several sessions have one name, give an id. Only a name
or id stops a session: --all and filters alone stop just the servers in it. With
a name, a filter compares the session's agent. An agent that mcpscope run has
started is a server, not a session.

What a server has left because of --keep is stopped only by its own name or id.
A process cannot stop the server or session that it is in: use another terminal.

The exit status is 0 if all of them were stopped.`,
	}, func(operands []string) int {
		f.servers.Names = operands
		return f.run(stdio)
	})
	fs := c.Flags()
	fs.BoolVar(&f.servers.All, "all", false, "all servers of the calling user")
	addFilters(c, &f.servers)
	fs.Func("grace", "shorten the time from SIGTERM to SIGKILL to `D`; 0 kills at once", f.setGrace)
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

func (f *stopFlags) run(stdio cli.Stdio) int {
	switch {
	case len(f.servers.Names) == 0 && !f.servers.All && !f.servers.IsNarrow():
		return stdio.Mistake("stop", "no server given: add a name, an id, --all, --client or --project")
	case len(f.servers.Names) > 0 && f.servers.All:
		return stdio.Mistake("stop", "--all and server names exclude each other")
	}
	found, err := f.find()
	if err != nil {
		return stdio.Cannot("stop", err)
	}
	defer found.Close()
	if len(found.Servers) == 0 && len(found.Sessions) == 0 {
		return f.stopNone(found.Unlisted, stdio)
	}
	if status := f.confirm(found.Servers, stdio); status != cli.ExitOK {
		return status
	}
	return f.stop(found, stdio)
}

// find finds sessions, and what is kept, only by their names: whoever stops the servers of a project does not
// mean its agents.
func (f *stopFlags) find() (*selection.Found, error) {
	if len(f.servers.Names) > 0 {
		return f.servers.Find()
	}
	found, err := f.servers.FindServers()
	if err == nil {
		found.OnlyServers()
	}
	return found, err
}

// stopNone reports that there is no server to stop. unlisted is why servers may be missing in the list.
func (f *stopFlags) stopNone(unlisted error, stdio cli.Stdio) int {
	noteOthers(&f.servers, stdio, "ls")
	switch {
	case f.servers.IsNarrow(): // it can be a typing error
		list := f.servers.OnlyUsers().CommandLine("ls")
		return stdio.CannotWithHint("stop", errors.New("there are "+f.servers.None()), list)
	case unlisted != nil:
		return stdio.Cannot("stop all servers", unlisted)
	}
	stdio.None(f.servers.None())
	return cli.ExitOK
}

// confirm asks before a command stops servers that a person may not think of.
func (f *stopFlags) confirm(servers []*fleet.Listed, stdio cli.Stdio) int {
	isWide := f.servers.All || len(f.servers.Names) == 0 && clientsOf(servers) > 1
	if !isWide || f.yes {
		return cli.ExitOK
	}
	render.WriteServers(stdio.Out, render.MeasureAll(servers), nil, f.servers.AllUsers)
	return f.ask(servers, stdio)
}

func (f *stopFlags) ask(servers []*fleet.Listed, stdio cli.Stdio) int {
	clients := clientsOf(servers)
	question := "Stop " + cli.Counted(len(servers), "server")
	hint := f.confirmed()
	if clients > 1 && !f.servers.All {
		question += " of " + cli.Counted(clients, "client")
		hint += ", or those of one client: --client PID"
	}
	if !stdio.Confirmed(question + "?") {
		return stdio.Unconfirmed("stop", hint)
	}
	return cli.ExitOK
}

// confirmed is the command that stops the same servers without a question.
func (f *stopFlags) confirmed() string {
	more := []string{"--yes"}
	if f.graceText != "" {
		more = []string{"--grace", f.graceText, "--yes"}
	}
	return f.servers.CommandLine("stop", more...)
}

func (f *stopFlags) stop(found *selection.Found, stdio cli.Stdio) int {
	stop := serverAction{
		verb: "stop",
		do: oneLine("stopped", nameAndID, func(s *fleet.Listed) error {
			return s.Stop(f.grace, ownCommandLine())
		}),
		doSession: oneLine("stopped", sessionAndID, func(s *fleet.Session) error {
			return s.Stop(f.grace)
		}),
	}
	status := stop.runOn(found, stdio)
	if found.Unlisted != nil {
		return stdio.Cannot("stop all servers", found.Unlisted)
	}
	return status
}

// clientsOf counts the clients of servers. A person who stops the servers of a client or a project may not
// think of its other windows, nor of another project of that name.
func clientsOf(servers []*fleet.Listed) int {
	clients := map[protocol.Identity]bool{}
	for _, s := range servers {
		clients[s.ClientProcess()] = true
	}
	return len(clients)
}

func (f *stopFlags) setGrace(text string) error {
	d, err := cli.ParseGrace(text)
	f.grace = fleet.AtMost(d)
	f.graceText = text
	return err
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
