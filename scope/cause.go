//go:build linux

package scope

// Cause is why a server came to its end. The first one wins.
type Cause string

const (
	mainExited     Cause = "main-exited"
	outOfMemory    Cause = "out-of-memory" // and the kernel killed all members
	stdinClosed    Cause = "stdin-closed"
	stdoutClosed   Cause = "stdout-closed"
	clientDied     Cause = "client-died"
	clientIdle     Cause = "client-died-idle"
	signalled      Cause = "signal"
	launcherGone   Cause = "launcher-gone"
	supervisorGone Cause = "supervisor-gone"
	stopRequested  Cause = "stop-requested"
	lifetimeOver   Cause = "max-lifetime"
	idleTooLong    Cause = "idle-timeout"
)

// Causes are all that there are.
func Causes() []Cause {
	return []Cause{
		mainExited, outOfMemory, stdinClosed, stdoutClosed, clientDied, clientIdle, signalled, launcherGone, supervisorGone, stopRequested, lifetimeOver, idleTooLong,
	}
}
