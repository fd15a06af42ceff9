// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/selection"
)

// addFilters declares the flags that say which servers a command means.
func addFilters(c *cobra.Command, s *selection.Selection) {
	allUsers(c.Flags(), s)
	c.Flags().Func("client", "only servers of client `PID|NAME`", readBy(&s.Client, notEmpty))
	_ = c.RegisterFlagCompletionFunc("client", clientNames) // it has that flag
	addOrigin(c.Flags(), s)
}

// addOrigin declares the filters that the journal has, too.
func addOrigin(fs *pflag.FlagSet, s *selection.Selection) {
	fs.Func("project", "only servers of the project `NAME`", readBy(&s.Project, notEmpty))
	fs.Func("conversation", "only servers of the client's conversation `ID`; its beginning is enough",
		readBy(&s.Conversation, notEmpty))
}

// notEmpty refuses the value of a filter that a script has no value for: without it, all servers are meant.
func notEmpty(value string) (string, error) {
	if value == "" {
		return "", errors.New("it must not be empty")
	}
	return value, nil
}

func allUsers(fs *pflag.FlagSet, s *selection.Selection) {
	fs.BoolVar(&s.AllUsers, "all-users", false, "include the servers of all users (root only)")
}

// noteOthers prints to root, in a pipe too, that other users have servers: a service with User= has its
// servers there. A command with the words more has them.
func noteOthers(s *selection.Selection, stdio cli.Stdio, command string, more ...string) {
	others := s.CountOthers()
	if others > 0 {
		line := s.WithoutNames().OfAllUsers().CommandLine(command, more...)
		stdio.Note(cli.Counted(others, "server") + " of other users: " + line)
	}
}
