// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

func TestManMistakes(t *testing.T) {
	checkSaid(t, map[string]said{
		"man":              usage("man", "no directory given"),
		"man a b":          usage("man", "no directory given"),
		"man /nonexistent": failure("write man pages: open /nonexistent/mcpscope.7: no such file or directory", ""),
		"man --reference /nonexistent": failure(
			"write the reference: open /nonexistent/commands.md: no such file or directory", ""),
	})
}
