// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/render/top"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// topLong returns the long help, with the keys of the screen.
func topLong() string {
	text := "Show the running servers in the terminal, refreshed every two seconds.\n\nKeys:\n"
	for _, k := range top.Keys() {
		text += fmt.Sprintf("  %s%s\n", render.Padded(k[0], top.KeyColumn), k[1])
	}
	const share = "CPU% is the share of one CPU since the last refresh. "
	return text + "\n" + strings.Join(cli.Wrap(share+top.Colors, cli.Width), "\n")
}

func topCommand(stdio cli.Stdio) *cobra.Command {
	var f selection.Selection
	c := command(spec{
		use: "top [flags]", short: "watch the running servers", also: "stats",
		examples: `  mcpscope top
  sudo mcpscope top --all-users
`,
		long: topLong(),
	}, func([]string) int { return runTop(&f, stdio) })
	addFilters(c, &f)
	return c
}

func runTop(f *selection.Selection, stdio cli.Stdio) int {
	if !stdio.CanAsk() {
		err := errors.New("stdin or stdout is no terminal")
		return stdio.CannotWithHint("show servers", err, f.CommandLine("ls"))
	}
	return openScreen(f, stdio)
}

func openScreen(f *selection.Selection, stdio cli.Stdio) int {
	if err := showServers(f); err != nil {
		return stdio.Cannot("show servers", err)
	}
	return cli.ExitOK
}

func showServers(f *selection.Selection) error {
	notes := append(mistakesInSettings(), uncovered(proc.Take(), clientconfig.NewSearch(), false)...)
	screen, err := top.New(top.Options{
		Servers: f,
		Note:    strings.Join(notes, "; "),
		Stop:    func(s *fleet.Listed) error { return s.Stop(fleet.AsConfigured(), ownCommandLine()) },
	})
	if err != nil {
		return err
	}
	return screen.Run()
}
