// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package lifecycle decides when a server is stopped, and in which steps: a table of states and events. It
// starts no process, reads no clock and sends no signal. Its caller reports events with their time, and
// performs the actions.
package lifecycle
