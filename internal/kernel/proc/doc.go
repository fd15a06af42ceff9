// SPDX-License-Identifier: Apache-2.0

// Package proc reads the files of /proc about processes, and the formats of cgroup files with pids and
// counters.
//
// A process controls part of these texts (its comm, its arguments, the names of its cgroups), so parsers
// accept any bytes: they return a value or an error, never panic, and never let one field spill into the
// next. [ErrGone] means that the process has exited, and is not returned for a process that is merely
// invisible.
//
// A result was true at some moment during the call. The package does not pin processes (the caller's pidfd
// does), sends no signals, and caches nothing.
package proc

import "errors"

var (
	// ErrGone: the process has exited and has been reaped. The errno (ENOENT or ESRCH, depending on the
	// moment) stays in the chain.
	ErrGone = errors.New("process has gone")

	// ErrNoCgroup2: /proc/PID/cgroup has no "0::" line. Either the kernel has no cgroup2 hierarchy, or it has
	// not been mounted since boot.
	ErrNoCgroup2 = errors.New("no cgroup2 hierarchy")
)
