// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/mcpscope/mcpscope/internal/gateway/early"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/group"
)

// Running is a gateway that has a watcher.
type Running struct {
	Name    string
	PID     int
	Watcher int
	Said    Said // by its watcher
}

// HasEnded reports whether the gateway itself has: then its watcher waits for its daemons.
func (r *Running) HasEnded() bool {
	_, err := proc.ReadStat(r.PID)
	return err != nil
}

// Starts reports whether a process is the gateway, or another starter of its servers.
func (r *Running) Starts(pid int) bool {
	isIt := func(s Starter) bool { return s.Process.PID == pid && group.Alive(s.Process) }
	return r.PID == pid || slices.ContainsFunc(r.Said.Starters, isIt)
}

// Gateways are those whose watchers contain the servers of processes below them.
type Gateways []Running

// Around returns the gateways of this user and of root.
func Around() Gateways { return append(List(os.Getuid()), List(0)...) }

// Of finds the gateway that a process is or is below.
func (all Gateways) Of(pid int) (outer Running, found bool) {
	for pid > 0 {
		i := slices.IndexFunc(all, func(r Running) bool { return r.Starts(pid) })
		if i >= 0 {
			return all[i], true
		}
		st, err := proc.ReadStat(pid)
		if err != nil {
			return Running{}, false
		}
		pid = st.PPID
	}
	return Running{}, false
}

// Daemons describes the daemons of the gateway that live.
func (r *Running) Daemons() (all []string) {
	for _, s := range r.Said.Starters {
		if s.IsDaemon && group.Alive(s.Process) {
			all = append(all, fmt.Sprintf("%s[%d]", nameOf(s.Process.PID, ""), s.Process.PID))
		}
	}
	return all
}

// Living are the servers that are not contained and have not ended.
func (s *Said) Living() []Outside {
	return slices.DeleteFunc(slices.Clone(s.Outside), func(o Outside) bool { return !group.Alive(o.Process) })
}

// List finds the gateways of a user, or of group.Everyone, by their watchers' command lines, which that
// user's processes may have forged.
func List(uid int) (all []Running) {
	_ = proc.Each(func(pid int) bool { // none, without /proc
		argv := arguments(pid)
		if len(argv) != 6 || argv[0] != "mcpscope" || argv[1] != early.WatchCommand {
			return true
		}
		status, err := proc.ReadStatus(pid) // its directory is root's: it keeps tracers off
		gateway, _ := strconv.Atoi(argv[2])
		if err != nil || gateway <= 0 || uid != group.Everyone && status.UID[0] != uid {
			return true
		}
		if slices.ContainsFunc(all, func(r Running) bool { return r.PID == gateway }) {
			return true // it has two watchers for a moment
		}
		one := Running{Name: nameOf(gateway, argv[3]), PID: gateway, Watcher: pid}
		if dir, err := openGroupOf(pid); err == nil {
			one.Said = readSaid(dir, gateway)
			one.Name = cmp.Or(one.Name, one.Said.Name) // it has ended
			_ = dir.Close()                            // a directory
		}
		all = append(all, one)
		return true
	})
	return all
}

// nameOf is a gateway's name; an early start gives none of some commands. It is "" in the middle of the exec.
func nameOf(pid int, given string) string {
	if given == "" {
		if argv := arguments(pid); len(argv) > 0 {
			return name.Derive(argv)
		}
	}
	return given
}
