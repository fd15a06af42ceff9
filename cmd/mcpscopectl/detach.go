// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/detach"
)

func detachCommand(io cli.Stdio) *cobra.Command {
	c := command(spec{
		use: "detach [--] COMMAND [ARG…]", short: "start a command that is to outlive the server it is started from", operands: files,
		examples: `  mcpscope detach -- xdg-open https://example.org/sign-in
  mcpscope detach -- gpg-connect-agent /bye
`,
		long: `Starts COMMAND outside of every server, on purpose: a browser to sign in with, a
daemon that all share. Nothing ends it with the server that has called this, and
what it uses does not count as that server's. systemd starts it, the user's
manager or root's the system's, as a service of its own (detached-….service),
with this environment and directory; it reads nothing, and what it writes goes
to the journal.

Returns when COMMAND has been executed: status 0; 127 if there is no such
command, 126 if it can't be executed, 1 if there is no manager.

mcpscope run offers it to servers as BROWSER in a graphical session:
--no-browser.`,
	}, func(operands []string) int { return detach.Run(operands, io) })
	c.Flags().SetInterspersed(false)
	return c
}
