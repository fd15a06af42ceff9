// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package scope runs MCP servers under mcpscope from a Go program. Cmd has the shape of os/exec's: it starts
// "mcpscope run" as a child process, which puts the server into a group of its own. When Wait has returned,
// or the calling program was killed and the grace periods are over, nothing that the server started is left.
// A program may run any number of servers at once; the package changes neither its signals, descriptors nor
// children.
//
// List, Stop and Sweep act on all servers of the calling user, however they were started.
//
// It needs Linux 5.14, and the program mcpscope.
package scope
