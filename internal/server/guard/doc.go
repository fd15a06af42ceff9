// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package guard starts a server below a guard: a raw copy of the launcher that is the parent of the main
// process and a subreaper, outlives the launcher, and starts another brain when the launcher is dead.
//
//	launcher ──▶ a process between, which exits at once
//	   │ page and socket └─▶ guard, in guards/, outside every process tree
//	   │                       └─▶ main process, in the payload
//
// The guard executes nothing and decides nothing. It reaps children, writes what happens to the page, and
// waits. Everything that it runs is in this package, and is system calls alone: no heap, no Go runtime, no
// writable global variable. A build with -race can't run servers: the guard has no race detector.
package guard
