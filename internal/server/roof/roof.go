// SPDX-License-Identifier: Apache-2.0

// Package roof says which service manager keeps what a client keeps: the groups of a client's servers live as
// long as its own surroundings. The cgroup of the client alone decides. A process of another user's session,
// of a system service with User=, of a container or of a batch job may have a manager of its user within
// reach, which ends at that user's logout.
//
// It uses no heap and makes no system call, since plain starts need it before there is a Go runtime.
package roof

import "strings"

// Where is the place of a client, as the manager of its user sees it.
type Where uint8

const (
	// Elsewhere is outside: a logout of the user does not end the client.
	Elsewhere Where = iota
	// LoginSession is a session of the user, which the manager lasts as long as.
	LoginSession
	// BelowManager is a unit of the manager.
	BelowManager
)

// Find finds the place of a client of a user. Client and init are the cgroups of the client and of PID 1 as
// proc(5) has them; init may be "", if it can't be read. The manager has a cgroup only for a client below it.
func Find(client, init string, uid int) (where Where, manager string) {
	base, _ := SystemManager(init) // "" is right for a PID 1 that is not the manager, such as a sandbox's
	if !strings.HasPrefix(client, base) {
		return Elsewhere, ""
	}
	slice := ""
	for begin := len(base); begin < len(client) && client[begin] == '/'; {
		end := begin + 1
		for end < len(client) && client[end] != '/' {
			end++
		}
		unit := client[begin+1 : end]
		switch {
		case strings.HasSuffix(unit, ".slice"):
			slice = unit
			begin = end
		case isNumbered(unit, "user@", uid, ".service"):
			return BelowManager, client[:end]
		case isNumbered(slice, "user-", uid, ".slice") && isSession(unit):
			return LoginSession, ""
		default:
			return Elsewhere, ""
		}
	}
	return Elsewhere, ""
}

// InJob reports whether a client is in a job of Slurm's. All jobs of a node share one unit, so not even the
// system manager has a place with the limits, the accounting and the life of a job.
func InJob(client string) bool { return strings.Contains(client, "slurmstepd.scope/job_") }

// SystemManager returns the cgroup of the system manager, which keeps PID 1 in a scope below it. ok is false
// if PID 1 is another program.
func SystemManager(init string) (manager string, ok bool) {
	manager, ok = strings.CutSuffix(init, "/init.scope")
	if !ok {
		return "", false
	}
	return manager, true
}

func isSession(unit string) bool {
	return strings.HasPrefix(unit, "session-") && strings.HasSuffix(unit, ".scope")
}

// isNumbered reports whether a unit has a name of three parts, with that number in the middle.
func isNumbered(unit, prefix string, number int, suffix string) bool {
	digits, hasPrefix := strings.CutPrefix(unit, prefix)
	digits, hasSuffix := strings.CutSuffix(digits, suffix)
	if !hasPrefix || !hasSuffix || digits == "" {
		return false
	}
	value := 0
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' || value > 1<<32 {
			return false
		}
		value = value*10 + int(digits[i]-'0')
	}
	return value == number
}
