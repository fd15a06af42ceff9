// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// KillTogether kills processes of which none is to act on another's end: launchers, guards, watchers, brains. Guards come
// before their brains, whose death would continue them.
func KillTogether(all ...*Process) error {
	for _, p := range all {
		// nobody but its parent gets word of a stop; until each thread has got it one may run
		deadline := pace.Now().Add(Patience)
		for p.Signal(unix.SIGSTOP); !allStopped(p.PID) && pace.Until(deadline) > 0; p.Signal(unix.SIGSTOP) {
			PollFor(time.Millisecond)
		}
	}
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

// allStopped tells whether no thread of the process can run.
func allStopped(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	for _, t := range threads {
		text, err := os.ReadFile(dir + "/" + t.Name() + "/stat")
		_, after, _ := strings.Cut(string(text), ") ")
		if err == nil && !strings.HasPrefix(after, "T") && !strings.HasPrefix(after, "Z") {
			return false
		}
	}
	return err == nil
}

// guardOf finds the guard of a server by its id: in the leaf beside the group or, of a scope, in that of the scope.
func guardOf(group, id string) (*Process, error) {
	var seen []string
	for _, leaf := range []string{group + "/guards", filepath.Join(group, "../guards"), group} {
		pids, _ := GroupPids(leaf) // there is none, as a rule
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
