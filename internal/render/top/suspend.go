// SPDX-License-Identifier: Apache-2.0

package top

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// hasShell reports whether the parent of this job can continue it. The kernel discards SIGTSTP in an orphaned
// process group (setpgid(2)), and Bubble Tea would wait for a SIGCONT that never comes.
func hasShell() bool {
	own, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	job := unix.Getpgrp()
	pid := os.Getppid()
	for {
		group, err := unix.Getpgid(pid)
		if err != nil {
			return false
		}
		if group != job {
			its, err := unix.Getsid(pid)
			return err == nil && its == own
		}
		stat, err := proc.ReadStat(pid)
		if err != nil { // 0 is a parent in another PID namespace
			return false
		}
		pid = stat.PPID
	}
}
