// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/gateway"
)

// configuredCommand prints the servers of configurations for a gateway's watcher. A file that was not named
// may be anything.
func configuredCommand(args []string, io cli.Stdio) int {
	all, err := clientconfig.Configurations(args)
	servers := []gateway.Configured{}
	for _, c := range all {
		if c.Err != nil && len(args) > 0 && err == nil {
			err = fmt.Errorf("%s: %w", c.Where(), c.Err)
		}
		for _, s := range c.Servers {
			if s.State != wrapping.Wrapped && len(s.Argv) > 0 {
				servers = append(servers, gateway.Configured{
					Name: s.Label(), Client: c.Client, File: c.Where(),
					Argv: s.Argv, Env: s.Env, Listens: s.Listens,
				})
			}
		}
	}
	if err == nil {
		err = json.NewEncoder(io.Out).Encode(servers)
	}
	if err != nil {
		fmt.Fprintln(io.Err, err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}
