// SPDX-License-Identifier: Apache-2.0

// Package causes has the reasons for which a server is stopped.
package causes

import "slices"

// Cause is why a server came to its end. The first one wins.
type Cause string

const (
	MainExited      Cause = "main-exited"
	MemoryExhausted Cause = "out-of-memory" // and the kernel killed all members
	StdinClosed     Cause = "stdin-closed"
	StdoutClosed    Cause = "stdout-closed"
	ClientDied      Cause = "client-died"
	Signalled       Cause = "signal"
	LauncherGone    Cause = "launcher-gone"
	StopRequested   Cause = "stop-requested"
	IdleTooLong     Cause = "idle-timeout"
)

// All lists all causes. The position is the number on the page, so new ones are appended.
func All() []Cause {
	return []Cause{
		MainExited, MemoryExhausted, StdinClosed, StdoutClosed, ClientDied, Signalled,
		LauncherGone, StopRequested, IdleTooLong,
	}
}

// Number is a cause on the page, 0 for none; Of reads it.
func (c Cause) Number() uint32 { return uint32(slices.Index(All(), c) + 1) }

// Of returns the cause with that number, or "".
func Of(number uint32) Cause {
	if all := All(); number > 0 && int(number) <= len(all) {
		return all[number-1]
	}
	return ""
}
