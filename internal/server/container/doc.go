// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package container stops what a container engine runs for a server: its containers have a label with the server's id.
package container
