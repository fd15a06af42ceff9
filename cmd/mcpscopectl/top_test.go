// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

func TestTopNeedsATerminal(t *testing.T) {
	checkSaid(t, map[string]said{
		"top":             failure("show servers: stdin or stdout is no terminal", "mcpscope ls"),
		"top --all-users": failure("show servers: stdin or stdout is no terminal", "mcpscope ls --all-users"),
	})
}
