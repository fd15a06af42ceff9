// SPDX-License-Identifier: Apache-2.0

// Package proc reads what the kernel tells about processes: the files of
// /proc, and the two small formats of cgroup files that hold pids and
// counters.
//
// A process writes part of what is read here about itself (its comm, its
// arguments, the names of the cgroups that it makes), so parsers take any
// bytes: they return what the kernel meant or an error, never panic, and
// never let one field spill into the next. A process that has gone is its own
// answer, [ErrGone], which is not given for a process that merely can't be
// seen.
//
// What is returned was true at some moment during the call. The package does
// not pin a process (that takes a pidfd, and the caller's), does not know
// what a cgroup's directory holds, signals nobody, and caches nothing.
package proc

import "errors"

var (
	// ErrGone: the process has ended and has been reaped. The errno
	// (ENOENT or ESRCH, by the moment in which it went) stays in the chain.
	ErrGone = errors.New("process has gone")

	// ErrNoCgroup2: /proc/PID/cgroup has no "0::" line, so the kernel has no
	// cgroup2 hierarchy, or nobody has mounted it since boot.
	ErrNoCgroup2 = errors.New("no cgroup2 hierarchy")
)
