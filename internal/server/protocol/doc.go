// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package protocol is what is said of a server, and to whom: its policy and the causes of its end, the
// configuration that a later brain finds on the page, the names of directories and processes, and the
// entries of the journal. It holds no group and ends nothing.
package protocol
