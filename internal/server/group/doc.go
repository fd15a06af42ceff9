// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package group is the cgroup of one server: how it is made, locked, armed and removed, its attributes,
// limits and figures, and the tag of its members. It does not decide when a group is stopped.
package group
