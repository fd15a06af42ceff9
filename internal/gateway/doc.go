// SPDX-License-Identifier: Apache-2.0

// Package gateway puts each server that a gateway starts into a group of its own, while the gateway runs as
// the very process that it would have been.
//
// A watcher beside it judges each program that the gateway executes before it runs (notify/): by its command
// line (rules.go), or by the unread bytes of its stdin (unread.go). Package launcher makes the groups, see
// capture.go. A guard starts the watcher, again if that is killed, and continues calls after a second without
// a watcher. The package never keeps a program from being executed, but the gateway itself (--require): a
// server that can't be contained runs as it would have.
package gateway
