// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package brain is the only process that decides: the client's child or, after its death, a process that the
// guard starts. It reports events to the lifecycle and performs the actions. It exits after all processes of
// the server.
package brain
