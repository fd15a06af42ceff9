// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sweep finds groups that nobody looks after any more, by what the kernel says of them, and ends
// them. A group that is in use is never touched.
package sweep
