// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/pace"
)

// KillGuards kills launcher and guard so that neither acts on the other's end. A stopped
// launcher stays stopped; a guard the kernel would wake, when the launcher dies.
func KillGuards(launcher, guard *Process) error {
	launcher.Signal(unix.SIGSTOP)
	// nobody but its parent gets word of a stop; until each thread has got it one may run
	for deadline := pace.Now().Add(Patience); !allStopped(launcher.PID) && pace.Until(deadline) > 0; {
	}
	guard.Signal(unix.SIGKILL)
	launcher.Signal(unix.SIGKILL)
	if !launcher.Ended(Patience) || !guard.Ended(Patience) {
		return errors.New("launcher or guard outlived SIGKILL")
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
		if err == nil && !strings.HasPrefix(after, "T") {
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
