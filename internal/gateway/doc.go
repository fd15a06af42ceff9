// SPDX-License-Identifier: Apache-2.0

// Package gateway puts each server that a gateway starts into a group of its own, while the gateway runs as
// the very process that it would have been.
//
// A watcher beside it holds each program that the gateway executes before it runs (notify/). It reads facts
// about the program (read.go), judges by them without any input or output (judge.go, rules.go), and acts
// (act.go): groups.go makes a group, and examine.go reads the unread bytes of a program's stdin until that
// is decided. A guard starts the watcher, and the next one if that is killed. Calls wait for the first
// watcher for 10 s, and for a later one for a second. Then the guard continues them.
//
// The package keeps no program from being executed: a server that can't be contained runs as it would have.
// With --require it does not execute the gateway if no server can be contained, and calls wait until there is
// a watcher. Only without guard and watcher the kernel fails each execve (ENOSYS).
package gateway
