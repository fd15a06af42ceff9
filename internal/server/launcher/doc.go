// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launcher starts a server below a guard, or takes one over that its client has started. From then on
// this process is the server's brain.
package launcher
