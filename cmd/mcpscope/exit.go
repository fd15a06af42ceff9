//go:build linux

package main

// Exit statuses. `run` otherwise ends as the server did.
const (
	exitOK          = 0
	exitFailure     = 1   // a command other than run failed; doctor: no group can be had, or a process escaped
	exitUsage       = 2   // a mistake in the arguments, of any command but run and doctor
	exitOwnFailure  = 125 // run, doctor: mcpscope itself failed, or was called wrongly; nothing was started, or it was ended
	exitNotRunnable = 126 // run: the command is there and can't be executed
	exitNotFound    = 127 // run: there is no such command
	exitSignalBase  = 128 // run as PID 1: 128 + the signal that ended the server
)
