// SPDX-License-Identifier: Apache-2.0

// Package gateway puts each server that a gateway starts into a group of its own, while the gateway runs as
// the very process that it would have been.
//
// A watcher beside it looks at each program that the gateway executes before it runs (notify/), and decides
// by its command line (rules.go) or by what is unread on its stdin (unread.go). Groups and guards are
// scope's, see capture.go. A standby takes over when the watcher is killed. The package never keeps a program
// from being executed: what can't be contained runs as it would have.
package gateway
