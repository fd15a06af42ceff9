// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/detach"
)

func detachCommand(stdio cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "detach [--] COMMAND [ARG…]", short: "start a command outside the group of every server",
		operands: files,
		examples: `  mcpscope detach -- xdg-open https://example.org/sign-in
  mcpscope detach -- gpg-connect-agent /bye
`,
		long: `Start COMMAND outside the group of every server: a browser for a sign-in, or a
daemon that several servers share. COMMAND continues when the server that called
mcpscope detach ends, and its resource use does not count for that server.

systemd starts COMMAND as a transient service, detached-….service, with the
environment and working directory of the caller. Users have their own manager
for this, root the system manager. stdin is empty, and output goes to the
journal.

The exit status is 0 when COMMAND has been executed, 127 if COMMAND was not
found, 126 if it cannot be executed, and 1 if there is no manager.`,
	}, func(operands []string) int { return runDetach(operands, stdio) })
	endFlagsAtOperand(c)
	return c
}

func runDetach(operands []string, stdio cli.Stdio) int {
	if len(operands) == 0 {
		return stdio.Mistake("detach", "no command given")
	}
	file, err := detach.FindCommand(operands[0])
	if err != nil {
		printer := &cli.Printer{Stdio: stdio}
		return printer.FailCommand(operands, err)
	}
	leftOut, err := detach.Start(file, operands[1:])
	if err != nil {
		return stdio.Cannot("start "+cli.OneLine(operands[0])+" outside of the server", err)
	}
	if len(leftOut) > 0 {
		const text = "it does not get these variables, whose names systemd does not take: "
		stdio.Note(text + cli.OneLine(strings.Join(leftOut, ", ")))
	}
	return cli.ExitOK
}
