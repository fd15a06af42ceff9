// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// KillGuards kills launcher and supervisor so that neither acts on the other's end. A stopped
// launcher stays stopped; a supervisor the kernel would wake, when the launcher dies.
func KillGuards(launcher, supervisor *Process) error {
	launcher.Signal(unix.SIGSTOP)
	// nobody but its parent gets word of a stop; until each thread has got it one may run
	for deadline := time.Now().Add(Patience); !allStopped(launcher.PID) && time.Now().Before(deadline); {
	}
	supervisor.Signal(unix.SIGKILL)
	launcher.Signal(unix.SIGKILL)
	if !launcher.Ended(Patience) || !supervisor.Ended(Patience) {
		return errors.New("launcher or supervisor outlived SIGKILL")
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
