// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package loop waits for descriptors, signals and one deadline in one system call.
package loop
