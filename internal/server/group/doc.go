// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package group is the cgroup of one server: how it is made, locked, armed and removed, what its
// attributes say, the limits and figures of it, and the tag that finds members which have left. It
// decides neither when a group ends nor whether it is an orphan.
package group
