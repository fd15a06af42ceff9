// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"fmt"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/gateway"
)

// configuredCommand prints the servers of configurations for a gateway's watcher.
func configuredCommand(args []string, io cli.Stdio) int {
	servers, _, err := configuredServers(args)
	if err == nil {
		err = json.NewEncoder(io.Out).Encode(servers)
	}
	if err != nil {
		fmt.Fprintln(io.Err, err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// configuredServers reads the configurations that are named, or all that there are. A file that was not named
// may be anything. wrapped are the servers that mcpscope run contains already.
func configuredServers(names []string) (servers, wrapped []gateway.Configured, err error) {
	found, err := clientconfig.Find(names)
	servers = []gateway.Configured{}
	for _, c := range found.Files {
		if c.Err != nil && len(names) > 0 && err == nil {
			err = fmt.Errorf("%s: %w", c.Where(), c.Err)
		}
		for _, s := range c.Servers {
			if len(s.Argv) == 0 {
				continue
			}
			server := gateway.Configured{
				Name: s.Label(), Client: c.Client, File: c.Where(),
				Argv: s.Argv, Env: s.Env, Listens: s.Listens,
			}
			if s.IsWrapped() {
				wrapped = append(wrapped, server)
			} else {
				servers = append(servers, server)
			}
		}
	}
	return servers, wrapped, err
}
