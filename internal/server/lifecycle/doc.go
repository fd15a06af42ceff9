// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package lifecycle decides when a server ends, and how patiently: what the client's side tells, the lifecycle from
// the first reason to the last grace, and what a process of ours needs for that (signals, timers, threads that
// are there when none can be had any more).
package lifecycle
