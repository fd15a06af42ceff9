// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package sweep finds orphans and stops them. It never touches a group that is in use.
package sweep
