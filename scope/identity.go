//go:build linux

package scope

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

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
func pidNamespace() uint64 { return namespace("pid") }

// namespace is the inode number of one of ours, 0 if that can't be read.
func namespace(kind string) uint64 {
	var ns unix.Stat_t
	if unix.Stat("/proc/self/ns/"+kind, &ns) != nil {
		return 0
	}
	return ns.Ino
}

// alive tells whether that very process may run. In another pid namespace the numbers
// mean nothing, and it may.
func (i identity) alive() bool { return i.aliveIn(pidNamespace()) }

// aliveIn is alive for who looks at many, and knows our pid namespace.
func (i identity) aliveIn(namespace uint64) bool {
	if i.Namespace != namespace {
		return true
	}
	st, err := proc.ReadStat(i.PID)
	if err != nil {
		return !errors.Is(err, proc.ErrGone) // out of descriptors, say: that we can't look at it does not end it
	}
	return st.StartTime == i.Start && st.State != 'Z'
}

func (i identity) String() string { return fmt.Sprintf("%d %d %d", i.PID, i.Start, i.Namespace) }

func parseIdentity(s string) (identity, bool) {
	pid, rest, _ := strings.Cut(s, " ")
	start, rest, _ := strings.Cut(rest, " ")
	namespace, _, _ := strings.Cut(rest, " ")
	var i identity
	var errs [3]error
	i.PID, errs[0] = strconv.Atoi(pid)
	i.Start, errs[1] = strconv.ParseUint(start, 10, 64)
	i.Namespace, errs[2] = strconv.ParseUint(namespace, 10, 64)
	return i, errs == [3]error{}
}
