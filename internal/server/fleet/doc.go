// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package fleet is the servers that run, as anyone of their user can see them, and what one can do to them:
// list, inspect, limit, freeze, stop. It knows them from the kernel alone.
package fleet
