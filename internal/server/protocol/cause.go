// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

// Cause is why a server came to its end. The first one wins.
type Cause string

const (
	MainExited      Cause = "main-exited"
	MemoryExhausted Cause = "out-of-memory" // and the kernel killed all members
	StdinClosed     Cause = "stdin-closed"
	StdoutClosed    Cause = "stdout-closed"
	ClientDied      Cause = "client-died"
	ClientIdle      Cause = "client-died-idle"
	Signalled       Cause = "signal"
	LauncherGone    Cause = "launcher-gone"
	SupervisorGone  Cause = "supervisor-gone"
	StopRequested   Cause = "stop-requested"
	LifetimeOver    Cause = "max-lifetime"
	IdleTooLong     Cause = "idle-timeout"
)

// Causes are all that there are.
func Causes() []Cause {
	return []Cause{
		MainExited, MemoryExhausted, StdinClosed, StdoutClosed, ClientDied, ClientIdle, Signalled, LauncherGone, SupervisorGone, StopRequested, LifetimeOver, IdleTooLong,
	}
}
