// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package client is the client's side of a server: whether the client lives, and whether it holds its ends
// of stdin and stdout. It reports, and decides nothing.
package client
