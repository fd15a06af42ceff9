// SPDX-License-Identifier: Apache-2.0

package units

// EnableSteps put the installed units of mcpscope in force.
func EnableSteps() []Step {
	return []Step{ReloadStep(), systemctlStep("enable", "--now", "mcpscope-sweep.timer")}
}

// StopStep stops the units that a removal of the files would remove. isInstalled is false if there is no such
// unit. A unit goes on without its file, so the step comes before the removal.
func StopStep(files []File, dir string) (stop Step, isInstalled bool) {
	stop = systemctlStep("stop")
	for _, file := range files {
		_, err := current(file.Path(dir))
		if err != nil { // a file that stays
			continue
		}
		stop.Argv = append(stop.Argv, file.Name)
		isInstalled = true
	}
	return stop, isInstalled
}
