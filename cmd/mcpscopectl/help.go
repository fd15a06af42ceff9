// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

const about = `mcpscope runs each MCP server in its own control group (cgroup), and leaves no
process of it behind.`

const overviewExamples = `  mcpscope run -- npx -y @modelcontextprotocol/server-everything
  mcpscope ls
`

// helpTemplate prints examples first, and the flags of the command without --help.
const helpTemplate = `Usage: {{if .HasParent}}{{.Parent.CommandPath}} {{.Use}}
{{- else}}mcpscope COMMAND [ARG…]{{end}}

{{if .HasExample}}{{.Example}}
{{end}}{{.Long}}
{{if .HasAvailableSubCommands}}
{{range .Commands}}{{if .IsAvailableCommand}}  {{rpad .Name .NamePadding}}  {{.Short}}
{{end}}{{end}}
Run 'mcpscope help {{if .HasParent}}{{.Name}} {{end}}COMMAND' for the details of a command.
{{else if .HasAvailableLocalFlags}}
{{.LocalFlags.FlagUsagesWrapped 80}}{{end}}`

func helpCommand(stdio cli.Stdio) *cobra.Command {
	return command(spec{
		use: "help [COMMAND]", short: "explain a command",
		examples: "  mcpscope help run\n", operands: cobra.NoFileCompletions,
		long: "Explain mcpscope, or one of its commands.",
	}, func(operands []string) int {
		c, rest, err := newRoot(stdio).Find(operands)
		if err != nil || len(rest) > 0 || c.Hidden {
			fmt.Fprintf(stdio.Err, "mcpscope: help: unknown command %q\n", operands[0])
			stdio.Hint("mcpscope help")
			return cli.ExitUsage
		}
		switch c.Name() {
		case settings.Run.String():
			fmt.Fprint(stdio.Out, settings.Help(settings.Run)) // as the runner prints it
		case settings.Gateway.String():
			fmt.Fprint(stdio.Out, settings.Help(settings.Gateway))
		default:
			_ = c.Help() // see cli.Output
		}
		return cli.ExitOK
	})
}
