// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launcher is the only process that decides: the client's child, or a later brain that the guard
// starts in its place. It reports events to the lifecycle and performs the actions. When it exits, nothing
// of the server is left.
package launcher
