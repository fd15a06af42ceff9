// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package hostinfo reads what a host offers servers, without changing anything on it: its kernel, its cgroup
// hierarchy, its service managers, and the unit that we are in.
package hostinfo
