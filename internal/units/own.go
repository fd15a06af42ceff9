// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
)

// OwnUnits are the units of mcpscope itself, in a directory of units.
type OwnUnits struct {
	Dir   string
	Files []File
	found map[string]systemd.Unit // by name, what the manager has
}

// FindOwn asks the manager of this user for the units of mcpscope. Without a manager none is found, and none
// runs.
func FindOwn(dir string) OwnUnits {
	own := OwnUnits{
		Dir:   dir,
		Files: OwnFiles(systemd.Own(), InstalledPrograms()),
		found: map[string]systemd.Unit{},
	}
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return own
	}
	defer c.Close()
	for _, file := range own.Files {
		unit, err := c.Unit(file.Name)
		if err == nil {
			own.found[file.Name] = unit
		}
	}
	return own
}

// Install installs the units that the packages have not. A copy would stay when the package is removed, and
// start a program that no longer exists. A copy that is there already is kept up to date.
func (o OwnUnits) Install() []FileResult {
	return forEach(o.Files, o.Dir, func(file File) (Result, error) {
		if o.isPackaged(file) {
			return Packaged, nil
		}
		return file.Install(o.Dir)
	})
}

// Remove removes each file that it can. The unit of a package stays, and is disabled.
func (o OwnUnits) Remove() []FileResult {
	return forEach(o.Files, o.Dir, func(file File) (Result, error) {
		result, err := file.Remove(o.Dir)
		if result == Absent && o.isPackaged(file) {
			return Packaged, err
		}
		return result, err
	})
}

// isPackaged reports whether the manager has read a unit of that name outside of the directory.
func (o OwnUnits) isPackaged(file File) bool {
	fragment := o.found[file.Name].Fragment
	return fragment != "" && fragment != file.Path(o.Dir)
}

// EnableSteps put the installed units in force.
func EnableSteps() []Step {
	const timer = "mcpscope-sweep.timer"
	enable := step("enable --now "+timer, func(c *systemd.Conn) error {
		if err := c.Enable(timer); err != nil {
			return err
		}
		if err := c.Reload(); err != nil { // as systemctl does
			return err
		}
		return c.StartUnit(timer)
	})
	return []Step{ReloadStep(), enable}
}

// StopStep stops the units that run and that a removal removes or disables. isNeeded is false if none runs. A
// unit goes on without its file, so the step comes before the removal.
func (o OwnUnits) StopStep() (stop Step, isNeeded bool) {
	var names []string
	for _, file := range o.Files {
		_, err := current(file.Path(o.Dir))
		isKept := err != nil && !os.IsNotExist(err) // it was changed
		state := o.found[file.Name].ActiveState
		if !isKept && state != "" && state != "inactive" && state != "failed" {
			names = append(names, file.Name)
		}
	}
	stop = step("stop "+strings.Join(names, " "), func(c *systemd.Conn) error {
		for _, name := range names {
			if err := c.StopUnit(name); err != nil {
				return err
			}
		}
		return nil
	})
	return stop, len(names) > 0
}
