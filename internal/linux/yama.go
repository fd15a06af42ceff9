// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import "os"

// Untraced tells whether no process of our user can trace one that is no child of its own (yama, ptrace_scope above 0). Root's
// can at any time, so of root it is not asked.
func Untraced() bool {
	b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	return os.Getuid() == 0 || err == nil && len(b) > 0 && b[0] != '0'
}
