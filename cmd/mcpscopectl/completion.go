// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
)

// harmless is a word that no shell takes for anything else: a server's name may be anything.
func harmless(s string) bool {
	const words = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@:+-"
	return s != "" && strings.Trim(s, words) == "" && s[0] != '-'
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// servers completes the names and ids of the caller's servers.
func servers(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return words(nameAndIDOf, nil)
}

// serversAndSessions completes the names and ids of the caller's servers and sessions.
func serversAndSessions(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return words(nameAndIDOf, func(s *fleet.Session) []string { return []string{s.Name, s.ID} })
}

func nameAndIDOf(s *fleet.Listed) []string { return []string{s.Facts.Name, s.Placed.ID} }

// clientNames completes the clients of servers that run.
func clientNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return words(func(s *fleet.Listed) []string { return []string{s.Facts.Client.Name} }, nil)
}

// words completes the words that these functions return for each server and session of the caller; ofSession
// may be nil.
func words(
	ofServer func(*fleet.Listed) []string, ofSession func(*fleet.Session) []string,
) ([]string, cobra.ShellCompDirective) {
	found, err := (&selection.Selection{}).Find()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer found.Close()
	var words []string
	for _, s := range found.Servers {
		words = append(words, ofServer(s)...)
	}
	if ofSession != nil {
		for _, s := range found.Sessions {
			words = append(words, ofSession(s)...)
		}
	}
	return complete(words), cobra.ShellCompDirectiveNoFileComp
}

// complete returns each word once, without those that a shell could take for something else.
func complete(words []string) []string {
	slices.Sort(words)
	words = slices.DeleteFunc(words, func(w string) bool { return !harmless(w) })
	return slices.Compact(words)
}

// clientsAndFiles completes what has a configuration.
func clientsAndFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, c := range clientconfig.Clients() {
		words = append(words, c.ID+"\t"+c.Title)
	}
	return words, cobra.ShellCompDirectiveDefault
}
