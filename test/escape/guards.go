// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// StopTogether stops launchers, guards and watchers, repeatedly: one that still runs continues the others. Then it
// kills their helpers.
func StopTogether(all ...*Process) {
	pace.Eventually(Patience, func() bool { // only the parent of a process gets word of its stop
		for _, p := range all {
			p.Signal(unix.SIGSTOP)
		}
		return !slices.ContainsFunc(all, func(p *Process) bool { return !allStopped(p.PID) })
	})
	for _, p := range all {
		KillHelperOf(p)
	}
}

// KillTogether kills launchers, guards, watchers and helpers, so that none can react to another's death.
func KillTogether(all ...*Process) error {
	StopTogether(all...)
	for _, p := range all {
		p.Signal(unix.SIGKILL)
	}
	for _, p := range all {
		if !p.Ended(Patience) {
			return fmt.Errorf("%s outlived SIGKILL", Describe(p.PID))
		}
	}
	return nil
}

// AwaitSettled waits until the helper that settles a start has ended: it sweeps as well. A guard has no other children
// than helpers, so it has reaped one when faults of children are counted. An idle server keeps its helper.
func AwaitSettled(guard *Process) bool {
	const faultsOfChildren = 11
	return pace.Eventually(Patience, func() bool {
		n, err := StatField(guard.PID, faultsOfChildren)
		return err != nil || n != "0"
	})
}

// AwaitRequest waits until a server has a helper that has connected to a manager: it has a socket beside that of its
// guard. A helper that reads of the end of its client before that requests nothing.
func AwaitRequest(id string) bool {
	return pace.Eventually(Patience, func() bool {
		helper := named("helper-" + id)
		if helper == nil {
			return false
		}
		defer helper.Close()
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", helper.PID)) // the pattern is valid
		sockets := 0
		for _, link := range links {
			target, _ := os.Readlink(link) // none, if it was closed
			if strings.HasPrefix(target, "socket:") {
				sockets++
			}
		}
		return sockets >= 2
	})
}

// KillHelperOf kills the helper that a guard has started, if it has: a helper stops a server that has lost both. The
// guard is stopped, so it starts no other one. A helper gets its name some time after its exec.
func KillHelperOf(guard *Process) {
	own := "/proc/" + strconv.Itoa(guard.PID)
	name, _ := os.ReadFile(own + "/comm") // held by the pidfd, unless it has ended
	if !strings.HasPrefix(string(name), guardName("")) {
		return
	}
	children, _ := os.ReadFile(own + "/task/" + strconv.Itoa(guard.PID) + "/children") // as above
	for _, child := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(child) // it is a number
		helper, err := OpenProcess(pid)
		if err != nil {
			continue // it has ended
		}
		helper.Signal(unix.SIGKILL)
		helper.Ended(Patience)
		helper.Close()
	}
}

// named opens the process with a name; nil for none.
func named(want string) *Process {
	for pid := range Parents() {
		name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // none, if it has ended
		if strings.TrimSpace(string(name)) != want {
			continue
		}
		if p, err := OpenProcess(pid); err == nil {
			return p
		}
	}
	return nil
}

// allStopped reports whether no thread of the process can run.
func allStopped(pid int) bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range threads {
		tid, _ := strconv.Atoi(t.Name()) // it is a number
		if state, err := StatField(tid, 3); err == nil && state != "T" && state != "Z" {
			return false
		}
	}
	return err == nil
}

// AwaitStopped waits until a process that has got SIGSTOP has stopped: on a busy machine it may have to wait for a
// processor. It is false if that is continued before.
func AwaitStopped(p *Process) bool {
	return pace.Eventually(Patience, func() bool { return allStopped(p.PID) })
}

func guardName(id string) string { return "guard-" + id }

// GuardOfTree finds the guard of a tree by the id of its server: it is in the client's group.
func GuardOfTree(id string) (guard *Process, err error) {
	pace.Eventually(Patience, func() bool {
		guard = named(guardName(id))
		return guard != nil
	})
	if guard == nil {
		return nil, fmt.Errorf("no guard of the tree %s", id)
	}
	return guard, nil
}

// guardOf finds a server's guard by id: in the leaf beside the group or, for a scope, in the scope's leaf. A
// member may have pulled it into the group.
func guardOf(group, id string) (*Process, error) {
	var seen []string
	places := []string{group + "/guards", filepath.Join(group, "../guards"), group, group + "/payload"}
	for _, place := range places {
		pids, _ := GroupPids(place) // most of these do not exist
		for _, pid := range pids {
			p, err := OpenProcess(pid)
			if err != nil {
				continue
			}
			name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // held by the pidfd, unless it has ended
			if strings.TrimSpace(string(name)) == guardName(id) {
				return p, nil
			}
			seen = append(seen, Describe(pid))
			p.Close()
		}
	}
	return nil, fmt.Errorf("no guard of %s: %v", id, seen)
}
