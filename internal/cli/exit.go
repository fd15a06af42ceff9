// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

// Exit statuses; docs/operate/troubleshooting.md has the same table. `run` and `gateway` otherwise end as their command did,
// which may be with a 2: so a mistake in their own arguments is 125, as with env(1) and docker run.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a command failed; status: something is broken; doctor: no group can be had, or a process escaped
	ExitUsage       = 2   // a mistake in the arguments, of any command but run and gateway
	ExitOwnFailure  = 125 // run, gateway: mcpscope failed or was called wrongly, so nothing was started, or it was ended; doctor: it failed itself
	ExitNotRunnable = 126 // run, gateway: the command is there and can't be executed
	ExitNotFound    = 127 // run, gateway: there is no such command
	ExitSignalBase  = 128 // run as PID 1: 128 + the signal that ended the server
)
