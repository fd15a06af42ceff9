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

// KillTogether kills launchers, guards, watchers and brains, so that none can react to another's death. It
// first stops all of them, repeatedly: a guard that still runs continues the stopped processes.
func KillTogether(all ...*Process) error {
	pace.Eventually(Patience, func() bool { // only the parent of a process gets word of its stop
		for _, p := range all {
			p.Signal(unix.SIGSTOP)
		}
		return !slices.ContainsFunc(all, func(p *Process) bool { return !allStopped(p.PID) })
	})
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

// guardOf finds a server's guard by id: in the leaf beside the group or, for a scope, in the scope's leaf.
func guardOf(group, id string) (*Process, error) {
	var seen []string
	for _, leaf := range []string{group + "/guards", filepath.Join(group, "../guards"), group} {
		pids, _ := GroupPids(leaf) // most of these do not exist
		for _, pid := range pids {
			p, err := OpenProcess(pid)
			if err != nil {
				continue
			}
			name, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm") // held by the pidfd, unless it has ended
			if strings.TrimSpace(string(name)) == "mcp-"+id {
				return p, nil
			}
			seen = append(seen, Describe(pid))
			p.Close()
		}
	}
	return nil, fmt.Errorf("no guard of %s: %v", id, seen)
}
