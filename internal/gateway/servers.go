// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Servers is which children are servers, and how each is run. Whoever may start one has it: the
// watcher and its standby.
type Servers struct {
	Rules   Rules
	Policy  protocol.Policy
	Limits  cgroup.Limits
	Backend protocol.Backend
	Slice   string
	Replace bool
	// Stderr is where a server's goes that can be given another one: see redirection.
	Stderr protocol.Stderr
	// Given are names of settings that no configuration file changes.
	Given []string
}
