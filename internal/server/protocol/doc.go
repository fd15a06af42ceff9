// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package protocol is what is said of a server, and to whom: its policy and the causes of its end, the
// configuration and the messages that launcher and supervisor exchange, the report for its client, and the
// entries of the journal. It holds no group and ends nothing.
package protocol
