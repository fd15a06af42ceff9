// SPDX-License-Identifier: Apache-2.0

package cli

// Exit statuses; docs/reference/exit-statuses.md has the same table. `run` and `gateway` return the status of
// their command, which may be 2. So a mistake in their own arguments is 125, as with env(1) and docker run.
// As PID 1, run returns 128 and the signal that ended the server: guard.ExitBy.
const (
	ExitOK          = 0
	ExitFailure     = 1   // a command failed; doctor, gateway --check: no group is available
	ExitUsage       = 2   // a mistake in the arguments of any command but run and gateway
	ExitOwnFailure  = 125 // run, gateway, doctor: mcpscope failed; run, gateway: also a mistake
	ExitNotRunnable = 126 // run, gateway: the command cannot be executed
	ExitNotFound    = 127 // run, gateway: the command was not found
)
