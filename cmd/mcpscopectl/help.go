// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

const about = `mcpscope runs each MCP server in a control group of its own, and leaves nothing of
it behind.`

const overviewExamples = `  mcpscope run -- npx -y @modelcontextprotocol/server-everything
  mcpscope ls
`

func helpCommand(io cli.Stdio) *cobra.Command {
	return command(spec{
		use: "help [COMMAND]", short: "explain a command", examples: "  mcpscope help run\n", operands: commandNames,
		long: "Explains mcpscope, or one command.",
	}, func(operands []string) int {
		root := newRoot(io)
		if len(operands) == 0 {
			fmt.Fprint(io.Out, overview(root))
			return cli.ExitOK
		}
		c, _, err := root.Find(operands[:1])
		if err != nil || c == root || c.Hidden {
			fmt.Fprintf(io.Err, "mcpscope: help: unknown command %q\n", operands[0])
			io.Hint("mcpscope help")
			return cli.ExitUsage
		}
		fmt.Fprint(io.Out, helpOf(c))
		return cli.ExitOK
	})
}

// helpOf is a command's help: examples first.
func helpOf(c *cobra.Command) string {
	switch c.Name() {
	case "run":
		return settings.Help(settings.Run)
	case "gateway":
		return settings.Help(settings.Gateway)
	case c.Root().Name():
		return overview(c)
	}
	text := "Usage: mcpscope " + c.Use + "\n\n"
	if c.Example != "" {
		text += c.Example + "\n"
	}
	text += reflowed(c.Long)
	if flags := flagsOf(c); len(flags) > 0 {
		text += "\n" + cli.Columns(flags)
	}
	return text
}

// reflowed breaks paragraphs into lines that fit; what is indented stays as it is.
func reflowed(text string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		if strings.HasPrefix(paragraph, " ") || strings.Contains(paragraph, "\n ") {
			b.WriteString(paragraph + "\n")
			continue
		}
		for _, line := range cli.Wrap(paragraph, cli.Width) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// flagsOf are the flags of a command, each with what it does.
func flagsOf(c *cobra.Command) (rows [][2]string) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			rows = append(rows, flagOf(f))
		}
	})
	return rows
}

// flagOf is a flag as people write it, and what it does.
func flagOf(f *pflag.Flag) [2]string {
	arg, help := pflag.UnquoteUsage(f)
	flag := "--" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", " + flag
	}
	if f.Value.Type() == "bool" {
		arg = ""
	}
	return [2]string{strings.TrimSpace(flag + " " + arg), strings.TrimSuffix(help, ": "+arg)}
}

func overview(root *cobra.Command) string {
	var rows [][2]string
	for _, c := range root.Commands() {
		if !c.Hidden {
			rows = append(rows, [2]string{c.Name(), c.Short})
		}
	}
	return "Usage: mcpscope COMMAND [ARG…]\n\n" + overviewExamples + "\n" + reflowed(about) + "\n" + cli.Columns(rows) + "\nmcpscope help COMMAND says more.\n"
}

func versionCommand(io cli.Stdio) *cobra.Command {
	return command(spec{
		use: "version", short: "print the version",
		long: `Prints the versions of the two programs, and what they were built from and with:
mcpscope, which stands beside each server, and mcpscopectl, which has all other
commands.`,
	}, func([]string) int {
		runner, built, err := runnerVersion()
		if err != nil {
			fmt.Fprintf(io.Out, "mcpscopectl %s (%s)\n", ownVersion(), cli.Built())
			return io.Cannot("tell the version of mcpscope", err)
		}
		fmt.Fprintf(io.Out, "mcpscope %s (%s)\nmcpscopectl %s (%s)\n", runner, built, ownVersion(), cli.Built())
		if runner != ownVersion() {
			fmt.Fprint(io.Err, "mcpscope: note: the two programs are of different versions; install both of one\n")
		}
		return cli.ExitOK
	})
}
