// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Demo runs published MCP servers under official SDK clients, each scenario
// without mcpscope and with it, and shows which processes are left when the
// client is gone.
//
//	demo MCPSCOPE CLIENTS
//
// CLIENTS is the directory that test/e2e/clients/setup has filled. The exit status
// is 1 when anything is left with mcpscope, or when a scenario that is known to
// leak without it does not, for then the comparison would show nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: demo MCPSCOPE CLIENTS (see demo/run)")
		os.Exit(2)
	}
	b := &bench{mcpscope: os.Args[1], bin: filepath.Join(os.Args[2], "bin"), node: filepath.Join(os.Args[2], "node")}
	// A signal takes effect between two scenarios: the one under way ends its own
	// processes first, which takes seconds at most.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	defer stop()
	if err := show(ctx, b, newTable(os.Stdout)); err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

// show runs all scenarios and prints a row for each.
func show(ctx context.Context, b *bench, out *table) error {
	out.head()
	var sum totals
	for _, s := range scenarios {
		bare, contained, err := b.compare(s)
		if ctx.Err() != nil {
			return context.Cause(ctx) // from a terminal it has met the clients as well
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		out.row(s, bare, contained)
		sum.add(s, bare, contained)
	}
	out.foot(sum)
	return sum.verdict()
}
