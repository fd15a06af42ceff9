// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

// Exit statuses. `run` otherwise ends as the server did.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a command other than run failed; doctor: no group can be had, or a process escaped
	ExitUsage       = 2   // a mistake in the arguments, of any command but run and doctor
	ExitOwnFailure  = 125 // run, doctor: mcpscope itself failed, or was called wrongly; nothing was started, or it was ended
	ExitNotRunnable = 126 // run: the command is there and can't be executed
	ExitNotFound    = 127 // run: there is no such command
	ExitSignalBase  = 128 // run as PID 1: 128 + the signal that ended the server
)
