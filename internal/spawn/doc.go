// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package spawn starts processes that are born in a group, or in nobody's process tree.
//
// A process is started here and not by os/exec, which has no fallback where clone3(2) is refused, can't leave
// the caller's process tree, and changes what the new process inherits (limits, the signal mask). Between the
// fork and the exec only raw system calls are made (child.go).
package spawn
