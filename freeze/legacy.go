// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// hasFreezer1 tells whether a process could be in one.
func hasFreezer1() bool {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return false
	}
	_, ok := proc.ParseCgroup1(b, "freezer")
	return ok
}

// LeaveFreezer1 takes a process that is being killed out of a frozen cgroup of version 1, as a hybrid host has
// them: there, unlike in version 2, it does not act on SIGKILL before it is thawed. The process is moved
// to the root of that hierarchy; others in its cgroup stay frozen. pid is what pidfd refers to.
func LeaveFreezer1(pid, pidfd int) {
	root, dir, ok := proc.Freezer1(pid)
	if !ok || linux.Ended(pidfd) {
		return
	}
	state, err := os.ReadFile(dir + "/freezer.state")
	if err != nil || bytes.HasPrefix(state, []byte("THAWED")) {
		return
	}
	procs, err := unix.Open(root+"/cgroup.procs", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it will be reported
	}
	defer unix.Close(procs)
	if !linux.Ended(pidfd) { // being frozen, it can't end by itself
		_, _ = unix.Write(procs, []byte(strconv.Itoa(pid))) // as above
	}
}
