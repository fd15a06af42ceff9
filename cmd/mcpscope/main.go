// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command mcpscope runs an MCP server in a control group of its own, and leaves nothing of it
// behind. It is the runner, which is beside every server, so it links no more than that needs (test/arch has
// the list). Every other command is in mcpscopectl, which it executes; run works without it.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/guard"
)

func main() {
	var args []string
	for _, a := range os.Args[1:] {
		args = append(args, strings.Clone(a)) // a launcher may overwrite its command line
	}
	os.Exit(run(args, cli.Stdio{Out: os.Stdout, Err: stderr{}}))
}

// stderr may have no reader when the server has ended, whose status counts. Package os would end the
// program by SIGPIPE until that is caught.
type stderr struct{}

func (stderr) Write(text []byte) (int, error) { return unix.Write(2, text) }

func run(args []string, to cli.Stdio) int {
	io, end := to.Checked()
	return end(command(args, io))
}

func command(args []string, io cli.Stdio) int {
	if len(args) > 0 {
		switch args[0] {
		case "run":
			return runCommand(args[1:], io)
		case "gateway":
			return gatewayCommand(args[1:], io)
		case gateway.WatchCommand:
			return watchCommand(args[1:], io)
		case "supervise":
			return superviseCommand(args[1:], io)
		case guard.ScopeCommand:
			return scopeCommand(args[1:], io)
		case programs.OwnCommand:
			fmt.Fprintf(io.Out, "%s\n%s\n", programs.Version(), programs.Built())
			return cli.ExitOK
		}
	}
	return dispatch(args, io)
}
