// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"io/fs"
)

// EnableSteps put the installed units of mcpscope in force.
func EnableSteps() []Step {
	return []Step{ReloadStep(), systemctlStep("enable", "--now", "mcpscope-sweep.timer")}
}

// StopStep stops the units that a removal removes or disables. isInstalled is false if there is no such unit.
// A unit goes on without its file, so the step comes before the removal.
func StopStep(files []File, dir string) (stop Step, isInstalled bool) {
	stop = systemctlStep("stop")
	for _, file := range files {
		_, err := current(file.Path(dir))
		isEnabled := errors.Is(err, fs.ErrNotExist) && len(linksOf(dir, file.Path(dir))) > 0
		if err != nil && !isEnabled { // a file that stays, or none
			continue
		}
		stop.Argv = append(stop.Argv, file.Name)
		isInstalled = true
	}
	return stop, isInstalled
}
