// SPDX-License-Identifier: Apache-2.0

package operate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// untilItWaits returns when a process waits for the end of a group, or for anything without a deadline; false if it has
// ended, or does not come to it. No event tells of that, so it looks again and again.
func untilItWaits(p *escape.Process) bool {
	for deadline := time.Now().Add(escape.Patience); time.Now().Before(deadline); {
		if p.Ended(time.Millisecond) {
			return false
		}
		if polls(p.PID) && (holds(p.PID, "/cgroup.events") || !holds(p.PID, "[timerfd]")) {
			return true
		}
	}
	return false
}

// polls tells whether a thread is in ppoll(2), and with no timeout, which is how ours wait. See proc_pid_syscall(5).
func polls(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	return slices.ContainsFunc(threads, func(file string) bool {
		text, _ := os.ReadFile(file)
		args := strings.Fields(string(text))
		return len(args) > 3 && args[0] == strconv.Itoa(unix.SYS_PPOLL) && args[3] == "0x0"
	})
}

// holds tells whether a process has a file open whose name ends so.
func holds(pid int, suffix string) bool {
	open, _ := escape.OpenFiles(pid) // it may be gone
	return slices.ContainsFunc(open, func(name string) bool { return strings.HasSuffix(name, suffix) })
}
