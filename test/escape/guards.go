// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/pace"
)

// KillGuards kills launcher and supervisor so that neither acts on the other's end. A stopped
// launcher stays stopped; a supervisor the kernel would wake, when the launcher dies.
func KillGuards(launcher, supervisor *Process) error {
	if err := NobodyStandsBy(supervisor); err != nil {
		return err
	}
	launcher.Signal(unix.SIGSTOP)
	// nobody but its parent gets word of a stop; until each thread has got it one may run
	for deadline := pace.Now().Add(Patience); !allStopped(launcher.PID) && pace.Until(deadline) > 0; {
	}
	supervisor.Signal(unix.SIGKILL)
	launcher.Signal(unix.SIGKILL)
	if !launcher.Ended(Patience) || !supervisor.Ended(Patience) {
		return errors.New("launcher or supervisor outlived SIGKILL")
	}
	return nil
}

// NobodyStandsBy waits until nobody does any more who would end the server if both guards were killed (spawn.Standby).
func NobodyStandsBy(supervisor *Process) error {
	where, err := bed.ProcessPath(supervisor.PID)
	if err != nil || filepath.Base(where) != "supervisor" {
		return nil // a tree, or no hierarchy
	}
	dir, err := bed.Directory(where)
	if err != nil {
		return err
	}
	return bed.WaitEmpty(filepath.Join(dir, "../../leaving"), Patience)
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
