// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package container stops the containers that an engine runs for a server. The program of an engine
// (docker, podman, nerdctl) is a client: the container belongs to another group and outlives that program.
//
// So mcpscope adds a label with the id of the server to the command. When the processes of the server have
// exited, it stops the containers with that label. It uses the program of the engine with the environment
// and global flags of the server: they select a context, a remote host, a namespace or another user.
package container
