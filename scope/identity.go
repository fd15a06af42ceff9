//go:build linux

package scope

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/proc"
)

// identity is a process for as long as the machine runs: the pid alone would be
// reused.
type identity struct {
	PID       int
	Start     uint64 // clock ticks after boot
	Namespace uint64 // the pid namespace that numbers it so
}

func identify(pid int) (identity, error) {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return identity{}, err
	}
	return identity{PID: pid, Start: st.StartTime, Namespace: pidNamespace()}, nil
}

// pidNamespace is the inode number of ours, 0 if that can't be read.
func pidNamespace() uint64 {
	var ns unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &ns) != nil {
		return 0
	}
	return ns.Ino
}

// alive tells whether that very process may run. In another pid namespace the numbers
// mean nothing, and it may.
func (i identity) alive() bool {
	if i.Namespace != pidNamespace() {
		return true
	}
	st, err := proc.ReadStat(i.PID)
	return err == nil && st.StartTime == i.Start && st.State != 'Z'
}

func (i identity) String() string { return fmt.Sprintf("%d %d %d", i.PID, i.Start, i.Namespace) }

func parseIdentity(s string) (identity, bool) {
	var i identity
	n, err := fmt.Sscanf(s, "%d %d %d", &i.PID, &i.Start, &i.Namespace)
	return i, err == nil && n == 3
}
