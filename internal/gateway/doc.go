// SPDX-License-Identifier: Apache-2.0

// Package gateway puts each server that a gateway starts into a group of its own, at the
// moment it starts, while the gateway runs as the very process that it would have been.
//
// A watcher stands beside it, and looks at each program that the gateway executes before it
// runs (notify/). Which child is a server is decided in one place, rules.go; groups and
// supervisors are scope's. A standby takes over when the watcher is killed. The package never
// keeps a program from being executed: what can't be contained runs as it would have.
package gateway
