// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// meant are names that people try.
var meant = map[string]string{
	"list": "ls", "ps": "ls", "stats": "top", "rm": "stop", "remove": "stop", "kill": "stop --grace 0", "end": "stop", "start": "run", "exec": "run",
	"limit": "set", "pause": "freeze", "suspend": "freeze", "resume": "thaw", "unfreeze": "thaw", "log": "logs", "journal": "logs", "events": "logs", "show": "inspect",
	"info": "inspect", "check": "doctor", "clean": "sweep", "cleanup": "sweep", "gc": "sweep", "prune": "sweep", "leaks": "sweep", "prometheus": "metrics",
}

// unknownHint guesses what was meant; the name of a program means to run it.
func unknownHint(root *cobra.Command, word string) string {
	if word == "restart" {
		return "mcpscope stop: a client that wants a server again starts it again"
	}
	if command := meant[word]; command != "" {
		return "mcpscope " + command
	}
	root.SuggestionsMinimumDistance = 1
	if near := root.SuggestionsFor(word); len(near) > 0 {
		return "mcpscope " + near[0]
	}
	return fmt.Sprintf("mcpscope run -- %s …, or mcpscope help", word)
}
