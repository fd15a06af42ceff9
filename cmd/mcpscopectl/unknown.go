// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// isCommand reports whether a command exists. The names of completion commands begin with underscores.
func isCommand(root *cobra.Command, name string) bool {
	c, _, err := root.Find([]string{name})
	return err == nil && c != root || strings.HasPrefix(name, cobra.ShellCompRequestCmd)
}

// unknownHint guesses what was meant; the name of a program means to run it.
func unknownHint(root *cobra.Command, word string) string {
	root.SuggestionsMinimumDistance = 1
	for command, words := range meant {
		if slices.Contains(strings.Fields(words), word) {
			return "mcpscope " + command
		}
	}
	if near := root.SuggestionsFor(word); len(near) > 0 {
		return "mcpscope " + near[0]
	}
	return fmt.Sprintf("mcpscope run -- %s …, or mcpscope help", word)
}

// meant are words that people try for a command.
var meant = map[string]string{
	"ls": "list ps", "top": "stats", "stop": "rm remove kill end", "run": "start exec", "set": "limit",
	"freeze": "pause suspend",
	"thaw":   "resume unfreeze", "logs": "log journal events", "inspect": "show info", "doctor": "check",
	"sweep": "clean cleanup gc prune leaks", "metrics": "prometheus",
}
