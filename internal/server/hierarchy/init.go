// SPDX-License-Identifier: Apache-2.0

//go:build linux

package hierarchy

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// initialPIDNamespace is the inode number of the machine's own pid namespace
// (PROC_PID_INIT_INO), whose PID 1 is a real init.
const initialPIDNamespace = 0xEFFFFFFC

// InitReaps reports whether PID 1 reaps orphans. In a container it may be an application that does not, and
// every guard would stay behind as a zombie.
func InitReaps() bool {
	if PIDNamespace() == initialPIDNamespace || os.Getpid() == 1 { // we are it, and do
		return true
	}
	st, err := proc.ReadStat(1)
	return err == nil && slices.Contains(knownInits, st.Comm)
}

// knownInits are the names of programs made to be PID 1 of a container.
var knownInits = []string{
	"systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runit", "openrc-init",
	"busybox", "podman-init", "mcpscope",
}

// PIDNamespace is the inode number of ours, 0 if that can't be read.
func PIDNamespace() uint64 {
	var ns unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &ns) != nil {
		return 0
	}
	return ns.Ino
}
