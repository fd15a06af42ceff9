// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launcher is the only process that thinks: the one that the client has started, or a later brain that the guard
// starts in its place. It reports events to the lifecycle and performs the actions. After it nothing of the server is left.
package launcher
