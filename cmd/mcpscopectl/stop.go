// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

type stopFlags struct {
	filter
	all, yes bool
	grace    time.Duration
}

func stopCommand(io cli.Stdio) *cobra.Command {
	var f stopFlags
	c := command(spec{
		use: "stop NAME|ID… | --all | --client PID|NAME", short: "end servers", operands: servers,
		examples: `  mcpscope stop git
  mcpscope stop --client hermes --grace 500ms
  mcpscope stop --all --yes
`,
		long: `Ends servers: SIGTERM to every member, the grace period (at most one minute,
unless --grace is longer), SIGKILL. Waits until nothing of them is left, and says
what it did, a line each. ID may be the beginning of one. With --all it lists them,
and asks before.

The exit status is 0 if all are gone.`,
	}, func(operands []string) int { return f.run(operands, io) })
	f.grace = fleet.AsConfigured
	fs := c.Flags()
	fs.BoolVar(&f.all, "all", false, "every server of the calling user")
	addFilter(c, &f.filter)
	fs.Func("grace", "`D` from SIGTERM to SIGKILL, if that is shorter than the server's own term grace; 0 kills at once", readBy(&f.grace, protocol.ParseGrace))
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	completes(c, "grace", "0", "500ms", "1s", "5s")
	return c
}

func (f *stopFlags) run(operands []string, io cli.Stdio) int {
	switch {
	case len(operands) == 0 && !f.all && f.client == "":
		return io.Mistake("stop", "which server? Give a name, an id, --all or --client")
	case len(operands) > 0 && f.all:
		return io.Mistake("stop", "--all means every server, so no other can be named")
	}
	servers, err := f.servers(operands)
	if err != nil {
		return io.Cannot("stop", err)
	}
	defer closeAll(servers)
	if len(servers) == 0 {
		sayNone(io.Out, f.none())
	} else if f.all && !f.yes {
		writeTable(io.Out, lookAtAll(servers), f.allUsers, widthOf(io.Out))
		if !confirmed(io, fmt.Sprintf("Stop %s?", counted(len(servers), "server"))) {
			return unconfirmed(io, "stop", "mcpscope stop --all --yes")
		}
	}
	return onEach(servers, io, "stop", "stopped", func(s *fleet.Listed) error {
		s.TellStop(ourCommand())
		return s.Stop(f.grace)
	})
}

// ourCommand is this command, and who has started it.
func ourCommand() string {
	text := "mcpscope " + strings.Join(os.Args[1:], " ")
	if above := fleet.Ancestry(os.Getppid()); len(above) > 0 {
		text += fmt.Sprintf(", from %s[%d]", above[0].Name, above[0].PID)
	}
	return text
}

// servers are those that are named or, if none is, all that the filter lets through.
func (f *filter) servers(operands []string) ([]*fleet.Listed, error) {
	if len(operands) == 0 {
		all, err := f.list()
		if len(all) > 0 {
			err = nil // who can be seen is ended
		}
		return all, err
	}
	return f.choose(operands)
}

// onEach does one thing to many servers at a time, and says how it went.
func onEach(servers []*fleet.Listed, io cli.Stdio, verb, past string, do func(*fleet.Listed) error) int {
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		status = cli.ExitOK
	)
	for _, s := range servers {
		wg.Go(func() {
			err := do(s)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				status = io.Cannot(fmt.Sprintf("%s %s (%s)", verb, cli.OneLine(s.Name), s.ID), err)
				return
			}
			if past != "" {
				fmt.Fprintf(io.Out, "%s %s (%s)\n", past, cli.OneLine(s.Name), s.ID)
			}
		})
	}
	wg.Wait()
	return status
}
