// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/render"
)

// printJSON prints v on several lines, and returns the exit status of the command with that goal.
func printJSON(stdio cli.Stdio, goal string, v any) int { return printIndented(stdio, goal, v, "  ") }

// printJSONLine prints v on a line, and returns the exit status of the command with that goal.
func printJSONLine(stdio cli.Stdio, goal string, v any) int { return printIndented(stdio, goal, v, "") }

func printIndented(stdio cli.Stdio, goal string, v any, indentation string) int {
	text, err := render.JSON(v, indentation)
	if err != nil {
		return stdio.Cannot(goal, err)
	}
	_, _ = stdio.Out.Write(text) // cli.Output reports it
	return cli.ExitOK
}
