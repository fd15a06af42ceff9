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
	return words(nameAndIDOf)
}

// serversAndSessions completes the names and ids of the caller's servers and sessions.
func serversAndSessions(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	sessions, _ := (&selection.Filter{}).ListSessions() // an error leaves some out: the others help
	defer selection.CloseSessions(sessions)
	var ofSessions []string
	for _, s := range sessions {
		ofSessions = append(ofSessions, s.Name, s.ID)
	}
	return words(nameAndIDOf, ofSessions...)
}

func nameAndIDOf(s *fleet.Listed) []string { return []string{s.Name, s.ID} }

// clientNames completes the clients of servers that run.
func clientNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return words(func(s *fleet.Listed) []string { return []string{s.Client.Name} })
}

// words completes the words that wordsOf returns for each server of the caller, and more. It leaves out words
// that a shell could take for something else.
func words(
	wordsOf func(*fleet.Listed) []string, more ...string,
) ([]string, cobra.ShellCompDirective) {
	listed, _ := (&selection.Filter{}).List() // an error leaves some out
	defer selection.Close(listed)
	words := more
	for _, s := range listed {
		words = append(words, wordsOf(s)...)
	}
	slices.Sort(words)
	words = slices.DeleteFunc(words, func(w string) bool { return !harmless(w) })
	return slices.Compact(words), cobra.ShellCompDirectiveNoFileComp
}

// clientsAndFiles completes what has a configuration.
func clientsAndFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, c := range clientconfig.Clients() {
		words = append(words, c.ID+"\t"+c.Title)
	}
	return words, cobra.ShellCompDirectiveDefault
}
