// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/scope"
)

// Servers is which children are servers, and how each is run. Whoever may start one has it: the
// watcher and its standby.
type Servers struct {
	Rules   Rules
	Policy  scope.Policy
	Limits  cgroup.Limits
	Backend scope.Backend
	Slice   string
	Replace bool
	// Stderr is where a server's goes that can be given another one: see redirection.
	Stderr scope.Stderr
	// Given are names of settings that no configuration file changes.
	Given []string
}
