// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package backend is where groups come from: a scope of a service manager, a directory of our own, or, where
// no cgroup can be had, the process tree below the guard.
package backend
