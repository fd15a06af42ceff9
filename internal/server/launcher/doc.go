// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package launcher is what a client starts in place of its server: it finds a group, starts the supervisor,
// passes signals on and ends as the server did. When the supervisor is killed it ends the group itself. It also
// takes servers that a client has started already, for gateways.
package launcher
