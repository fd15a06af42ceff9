// SPDX-License-Identifier: Apache-2.0

// Package containment finds out whether the servers of running gateways are contained. It reads /proc, and
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

	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/server/names"
)

// State describes a gateway at this moment.
type State string

const (
	// Contained is a gateway whose servers each get a group.
	Contained State = "contained"
	// Weaker is a gateway whose servers have no cgroups.
	Weaker State = "contained without cgroups"
	// Uncontained is a gateway whose servers get no group.
	Uncontained State = "not contained"
	// Undecided is a gateway about which mcpscope is about to find out.
	Undecided State = "undecided"
)

// process is a process in /proc that is of interest here.
type process struct {
	UID          int
	Group        string // the path of its control group
	GatewayGroup string // of a watcher: the path of its gateway's control group, "" if that has ended
	ReapedChild  bool   // of a guard: a watcher of it has ended
	ReadOnly     bool   // of a watcher: it cannot write to any cgroup2 mount, so its servers will be trees
	HasTrees     bool   // of a watcher: it contains servers without cgroups
}

// snapshot has the processes beside gateways.
type snapshot struct{ watchers, guards []process }

// argumentBytes is enough for the command line of a watcher, whose gateway's name may be long.
const argumentBytes = 8 << 10

// FindState finds the state of the gateway that is the main process pid of a unit. group is the unit's
// control group.
func FindState(pid int, group string) State {
	// Before the snapshot: a process that has executed the gateway has its guard already.
	before := beforeGateway(pid)
	state := takeSnapshot(proc.Take()).judge(group)
	switch {
	case state == Uncontained && before:
		return Undecided
	case state != Uncontained:
		return state
	}
	// Guard and watcher may have moved out while /proc was read. Then the watcher is there now.
	return takeSnapshot(proc.Take()).judge(group)
}

// HasFilter reports whether a seccomp filter judges the system calls of a process. Of a gateway without a
// guard, nothing answers the calls that its filter holds: each execve fails with ENOSYS.
func HasFilter(pid int) bool {
	status, err := proc.ReadStatus(pid)
	return err == nil && status.Filtered
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
	case programs.Runner, "systemd", "systemd-executor":
		return true
	}
	return false
}

func (s snapshot) judge(group string) State {
	state := Uncontained
	for _, w := range s.watchers {
		switch {
		case !isWithin(w.GatewayGroup, group):
		case w.HasTrees:
			return Weaker
		case w.Group == w.GatewayGroup, w.ReadOnly: // it has yet to move out, or to take its name
			state = Undecided
		default:
			return Contained
		}
	}
	if state == Undecided {
		return state
	}
	for _, guard := range s.guards {
		if isWithin(guard.Group, group) && !guard.ReapedChild { // it has yet to start its first watcher
			return Undecided
		}
	}
	return Uncontained
}

// UncontainedGroups returns the control groups of gateways of a choice of users, whose watcher has found
// that no server can get a group. A gateway that could not have a guard is not found.
func UncontainedGroups(t *proc.Table, users group.Users) (groups []string) {
	for _, group := range takeSnapshot(t).uncontained(users) {
		if takeSnapshot(proc.Take()).judge(group) == Uncontained { // see FindState
			groups = append(groups, group)
		}
	}
	return groups
}

func (s snapshot) uncontained(users group.Users) (groups []string) {
	add := func(p process, path string) {
		isVisible := users.Include(p.UID)
		if isVisible && s.judge(path) == Uncontained && !slices.Contains(groups, path) {
			groups = append(groups, path)
		}
	}
	for _, guard := range s.guards {
		if !guard.movedOut() {
			add(guard, guard.Group)
		}
	}
	for _, w := range s.watchers {
		if w.GatewayGroup != "" {
			add(w, w.GatewayGroup)
		}
	}
	return groups
}

// movedOut reports whether the process is where a watcher moves itself and its guard.
func (p process) movedOut() bool {
	name := filepath.Base(p.Group)
	return name == names.GuardsName || strings.HasPrefix(name, "mcpscope-gateway-")
}

func isWithin(group, above string) bool {
	return group == above || strings.HasPrefix(group, above+"/")
}

func takeSnapshot(t *proc.Table) (s snapshot) {
	for _, p := range t.All() {
		s.add(t, p)
	}
	return s
}

// add adds a process if that is a watcher or a guard of a gateway.
func (s *snapshot) add(t *proc.Table, of *proc.Process) {
	argv := of.Arguments()
	if len(argv) < 2 {
		return
	}
	watcher, isWatcher := gateway.ParseWatcher(argv)
	isGuard := argv[1] == "gateway" && of.Comm() == gateway.GuardName
	if !isWatcher && !isGuard {
		return
	}
	pid := of.PID
	stat, errStat := proc.ReadStat(pid)
	status, errStatus := proc.ReadStatus(pid)
	group, errGroup := proc.ReadCgroup(pid)
	if errStat != nil || errStatus != nil || errGroup != nil { // it has exited
		return
	}
	p := process{UID: status.UID[0], Group: group}
	if isGuard {
		p.ReapedChild = stat.ChildFaults > 0 // page faults of children that it has waited for
		s.guards = append(s.guards, p)
		return
	}
	gatewayPID := gateway.FindGateway(t, pid, watcher.PID)
	if gatewayPID > 0 {
		p.GatewayGroup, _ = proc.ReadCgroup(gatewayPID) // "", if the gateway has ended
	}
	p.ReadOnly = cgroupsAreReadOnly(pid)
	p.HasTrees = of.Comm() == names.WatcherOfTrees
	s.watchers = append(s.watchers, p)
}

// cgroupsAreReadOnly reports whether all cgroup2 mounts of a process are read-only, and there is one
// (ProtectControlGroups=). Files of a group cannot be written there, even if a manager makes the group.
func cgroupsAreReadOnly(pid int) bool {
	mounts, err := proc.Mounts(pid)
	return err == nil && areReadOnly(mounts)
}

// areReadOnly reports whether there is a mount of cgroup2, and none to which one can write.
func areReadOnly(mounts []proc.Mount) bool {
	isReadOnly := false
	for _, m := range mounts {
		if m.Kind != "cgroup2" {
			continue
		}
		if !m.IsReadOnly() {
			return false
		}
		isReadOnly = true
	}
	return isReadOnly
}
