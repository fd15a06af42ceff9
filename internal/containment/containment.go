// SPDX-License-Identifier: Apache-2.0

// Package containment looks whether the servers of running gateways are contained. It reads /proc, and
// changes nothing.
//
// A gateway has a guard and a watcher. If a group can be made for a server, the watcher moves both out of the
// gateway's control group before it does anything else. If none can be made, the watcher exits, and the guard
// stays where it is. So the place of the two shows the result.
package containment

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway/early"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// State describes a gateway at this moment.
type State string

const (
	Contained   State = "contained"     // each server that it starts gets a group
	Uncontained State = "not contained" // no server gets a group
	Undecided   State = "undecided"     // mcpscope is about to find out
)

// process is a process in /proc that is of interest here.
type process struct {
	UID          int
	Group        string // the path of its control group
	GatewayGroup string // of a watcher: the path of its gateway's control group, "" if that has ended
	ReapedChild  bool   // of a guard: a watcher of it has ended
}

// snapshot has the processes beside gateways.
type snapshot struct{ watchers, guards []process }

// argumentBytes is enough for the command line of a watcher, whose gateway's name may be long.
const argumentBytes = 8 << 10

// Look finds the state of the gateway that is the main process pid of a unit. group is the unit's control
// group.
func Look(pid int, group string) State {
	// Before the snapshot: a process that has executed the gateway has its guard already.
	before := beforeGateway(pid)
	state := takeSnapshot().judge(group)
	switch {
	case state == Uncontained && before:
		return Undecided
	case state != Uncontained:
		return state
	}
	// Guard and watcher may have moved out while /proc was read. Then the watcher is there now.
	if takeSnapshot().hasWatcher(group) {
		return Undecided
	}
	return Uncontained
}

// beforeGateway reports whether a process has yet to execute the gateway: it is still a copy of the service
// manager, or mcpscope.
func beforeGateway(pid int) bool {
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	program := filepath.Base(strings.TrimSuffix(exe, " (deleted)"))
	if err != nil { // another user's process, or one that has ended
		argv := proc.Arguments(pid, argumentBytes)
		if len(argv) < 2 || argv[1] != "gateway" {
			return len(argv) == 0
		}
		program = filepath.Base(argv[0])
	}
	switch program {
	case cli.Runner, "systemd", "systemd-executor":
		return true
	}
	return false
}

// watched reports whether a watcher of a gateway in the group has moved out of it.
func (s snapshot) watched(group string) bool {
	return slices.ContainsFunc(s.watchers, func(w process) bool {
		return isWithin(w.GatewayGroup, group) && w.Group != w.GatewayGroup
	})
}

// hasWatcher reports whether a gateway in the group has a watcher, wherever that is.
func (s snapshot) hasWatcher(group string) bool {
	return slices.ContainsFunc(s.watchers, func(w process) bool { return isWithin(w.GatewayGroup, group) })
}

func (s snapshot) judge(group string) State {
	switch {
	case s.watched(group):
		return Contained
	case s.hasWatcher(group):
		return Undecided
	}
	for _, guard := range s.guards {
		if isWithin(guard.Group, group) && !guard.ReapedChild { // it has yet to start its first watcher
			return Undecided
		}
	}
	return Uncontained
}

// UncontainedGroups returns the control groups of gateways of a user, or of all users for root, whose watcher
// has found that no server can get a group. A gateway that could not have a guard is not found.
func UncontainedGroups(uid int) (groups []string) {
	for _, group := range takeSnapshot().uncontained(uid) {
		if !takeSnapshot().hasWatcher(group) { // see Look
			groups = append(groups, group)
		}
	}
	return groups
}

func (s snapshot) uncontained(uid int) (groups []string) {
	for _, guard := range s.guards {
		if uid != 0 && guard.UID != uid || guard.movedOut() {
			continue
		}
		if s.judge(guard.Group) == Uncontained && !slices.Contains(groups, guard.Group) {
			groups = append(groups, guard.Group)
		}
	}
	return groups
}

// movedOut reports whether the process is where a watcher moves itself and its guard.
func (p process) movedOut() bool {
	name := filepath.Base(p.Group)
	return name == protocol.GuardsName || strings.HasPrefix(name, "mcpscope-gateway-")
}

func isWithin(group, above string) bool {
	return group == above || strings.HasPrefix(group, above+"/")
}

func takeSnapshot() (s snapshot) {
	_ = proc.Each(func(pid int) bool { // none, without /proc
		argv := proc.Arguments(pid, argumentBytes)
		if len(argv) < 2 {
			return true
		}
		isWatcher := len(argv) == 6 && argv[0] == cli.Runner && argv[1] == early.WatchCommand
		comm, _ := proc.Comm(pid) // "", if it has exited
		isGuard := comm == early.GuardName && argv[1] == "gateway"
		if !isWatcher && !isGuard {
			return true
		}
		stat, errStat := proc.ReadStat(pid)
		status, errStatus := proc.ReadStatus(pid)
		group, errGroup := proc.ReadCgroup(pid)
		if errStat != nil || errStatus != nil || errGroup != nil { // it has exited
			return true
		}
		p := process{UID: status.UID[0], Group: group, ReapedChild: stat.ChildFaults > 0}
		if isGuard {
			s.guards = append(s.guards, p)
			return true
		}
		gateway, _ := strconv.Atoi(argv[2]) // 0 is no process
		p.GatewayGroup, _ = proc.ReadCgroup(gateway)
		s.watchers = append(s.watchers, p)
		return true
	})
	return s
}
