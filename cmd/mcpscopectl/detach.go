// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/detach"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

func detachCommand(io cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "detach [--] COMMAND [ARG…]", short: "start a command that is to outlive the server it is started from", operands: files,
		examples: `  mcpscope detach -- xdg-open https://example.org/sign-in
  mcpscope detach -- gpg-connect-agent /bye
`,
		long: `Starts COMMAND outside of every server, on purpose: a browser to sign in with, a daemon
that all share. Nothing ends it with the server that has called this, and what it uses
does not count as that server's. systemd starts it, the user's manager or root's the
system's, as a service of its own (detached-….service), with this environment and
directory; it reads nothing, and what it writes goes to the journal.

Returns when COMMAND has been executed: status 0; 127 if there is no such command, 126
if it can't be executed, 1 if there is no manager.

mcpscope run offers it to servers as BROWSER in a graphical session: --no-browser.`,
	}, func(operands []string) int { return detachCommandLine(operands, io) })
	c.Flags().SetInterspersed(false)
	return c
}

func detachCommandLine(operands []string, io cli.Stdio) int {
	if len(operands) == 0 {
		return io.Mistake("detach", "which command? Give one, like xdg-open URL")
	}
	file, err := protocol.Lookup(operands[0], cli.SearchPath())
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err != nil {
		return (&cli.Printer{Stdio: io}).FailCommand(operands, err)
	}
	if err := detach.Start(file, operands); err != nil {
		return io.CannotWithHint("start "+cli.OneLine(operands[0])+" outside of the server", err, "it takes systemd: mcpscope doctor says whether there is a manager")
	}
	return cli.ExitOK
}
