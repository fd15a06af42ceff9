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
func configuredCommand(args []string, stdio cli.Stdio) int {
	found, err := readConfigured(args)
	if err == nil {
		err = json.NewEncoder(stdio.Out).Encode(found.bare)
	}
	if err != nil {
		fmt.Fprintln(stdio.Err, err)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// configuredServers are the servers of configurations that have a command.
type configuredServers struct {
	bare    []gateway.Configured // never nil
	wrapped []gateway.Configured // mcpscope run contains them already
}

// readConfigured reads the configurations that are named, or all that there are. A file that was not named
// may be anything, so it is no error if that cannot be read. With an error, it returns the servers of the
// other files.
func readConfigured(names []string) (configuredServers, error) {
	servers := configuredServers{bare: []gateway.Configured{}}
	found, err := clientconfig.Find(names)
	if err != nil {
		return servers, err
	}
	var unread error // the first
	for _, c := range found.Files {
		if c.Err != nil && len(names) > 0 && unread == nil {
			unread = fmt.Errorf("%s: %w", c.Where(), c.Err)
		}
		servers.add(c)
	}
	return servers, unread
}

func (servers *configuredServers) add(c *clientconfig.File) {
	for _, s := range c.Servers {
		if len(s.Argv) == 0 {
			continue
		}
		server := gateway.Configured{
			Name: s.Label(), Client: c.Client, File: c.Where(),
			Argv: s.Argv, Env: s.Env, Listens: s.Listens,
		}
		if s.IsWrapped() {
			servers.wrapped = append(servers.wrapped, server)
		} else {
			servers.bare = append(servers.bare, server)
		}
	}
}
