// SPDX-License-Identifier: Apache-2.0

//go:build linux

package group

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
)

// Identity is a process until the machine stops: the pid alone is reused.
type Identity struct {
	PID       int
	Start     uint64 // clock ticks after boot
	Namespace uint64 // the pid namespace that numbers it so
}

func Identify(pid int) (Identity, error) {
	st, err := proc.ReadStat(pid)
	if err != nil {
		return Identity{}, err
	}
	return Identity{PID: pid, Start: st.StartTime, Namespace: hierarchy.PIDNamespace()}, nil
}

// Alive reports whether the process may run. A pid of another pid namespace is unknown, so it may.
func (i Identity) Alive() bool {
	if i.Namespace != hierarchy.PIDNamespace() {
		return true
	}
	st, err := proc.ReadStat(i.PID)
	if err != nil {
		return !errors.Is(err, proc.ErrGone) // it is hidden (hidepid=2)
	}
	return st.StartTime == i.Start && st.State != 'Z'
}

func (i Identity) String() string { return fmt.Sprintf("%d %d %d", i.PID, i.Start, i.Namespace) }

func ParseIdentity(s string) (Identity, bool) {
	pid, rest, _ := strings.Cut(s, " ")
	start, rest, _ := strings.Cut(rest, " ")
	namespace, _, _ := strings.Cut(rest, " ")
	var i Identity
	var errs [3]error
	i.PID, errs[0] = strconv.Atoi(pid)
	i.Start, errs[1] = strconv.ParseUint(start, 10, 64)
	i.Namespace, errs[2] = strconv.ParseUint(namespace, 10, 64)
	return i, errs == [3]error{}
}
