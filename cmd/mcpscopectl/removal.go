// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/removal"
	"github.com/mcpscope/mcpscope/internal/show"
)

type removalFlags struct{ own, json bool }

// removalCommand is for packages and make uninstall: a removal must not break a client.
func removalCommand(io cli.Stdio) *cobra.Command {
	var f removalFlags
	c := command(spec{
		use: "removal", short: "list what stops to work without mcpscope",
		long: `Lists the configurations and units that start this mcpscope: as root those of all
users, else your own. Exits with status 1 if one of them stops to work without it.`,
	}, func([]string) int { return f.run(io) })
	c.Flags().BoolVar(&f.own, "own", false, "the calling user's alone")
	c.Flags().BoolVar(&f.json, "json", false, "a list of objects")
	c.Hidden = true
	return c
}

func (f *removalFlags) run(io cli.Stdio) int {
	runner, err := cli.FindRunner()
	if err != nil {
		return io.Cannot("tell what uses it", err)
	}
	uses, err := removal.Find(f.own, runner)
	if f.json {
		err = errors.Join(err, show.PrintJSON(io.Out, uses, ""))
	} else {
		for _, u := range uses {
			fmt.Fprintf(io.Out, "%s: %s\n", cli.OneLine(u.File), cli.OneLine(u.What))
		}
	}
	if err != nil {
		return io.Cannot("look everywhere", err)
	}
	remedies, breaks := map[string]bool{}, false
	for _, u := range uses {
		breaks = breaks || !u.Harmless
		if u.Remedy != "" && !remedies[u.Remedy] && !f.json {
			remedies[u.Remedy] = true
			fmt.Fprintf(io.Out, "  first: %s\n", cli.OneLine(u.Remedy))
		}
	}
	if breaks && !f.json {
		return cli.ExitFailure
	}
	return cli.ExitOK
}
