// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package fleet lists the running servers of a user, from the kernel alone, and inspects, limits, freezes
// and stops them.
package fleet
