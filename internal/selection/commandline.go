// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// CommandLine is a command of mcpscope for the same names and filters, for a hint: a person who pastes it
// means what the command line before meant. more are further words for that command.
func (s *Selection) CommandLine(command string, more ...string) string {
	words := slices.Concat([]string{"mcpscope", command}, s.Names)
	if s.All {
		words = append(words, "--all")
	}
	if s.AllUsers {
		words = append(words, "--all-users")
	}
	for _, flag := range []struct{ name, value string }{
		{"--client", s.Client}, {"--project", s.Project}, {"--conversation", s.Conversation},
		{"--unit", s.Unit},
	} {
		if flag.value != "" {
			words = append(words, flag.name, flag.value)
		}
	}
	if s.OlderThan != nil {
		words = append(words, "--older-than", s.OlderThan.String())
	}
	words = append(words, more...)
	for i, word := range words {
		words[i] = cli.Word(word)
	}
	return strings.Join(words, " ")
}

// WithoutNames is the selection of everything with the same filters.
func (s *Selection) WithoutNames() *Selection {
	every := *s
	every.Names = nil
	every.All = false
	return &every
}

// OfAllUsers is the same selection with the servers of all users.
func (s *Selection) OfAllUsers() *Selection {
	everyone := *s
	everyone.AllUsers = true
	return &everyone
}

// OnlyUsers is the selection of everything of the same users, for a command that takes no other filter.
func (s *Selection) OnlyUsers() *Selection { return &Selection{AllUsers: s.AllUsers} }
