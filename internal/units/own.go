// SPDX-License-Identifier: Apache-2.0

package units

import (
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/programs"
)

// Own are the units of mcpscope itself, in a directory of units.
type Own struct {
	Dir   string
	Files []File
	found map[string]foundUnit // by name, what the manager has
}

// foundUnit is a unit of the name of one of ours.
type foundUnit struct {
	systemd.Unit
	Program string // that it starts, "" of a timer
}

// FindOwn asks the manager of this user for the units of mcpscope. Without a manager none is found, and none
// runs.
func FindOwn(dir string) Own {
	own := Own{
		Dir:   dir,
		Files: OwnFiles(systemd.Own(), InstalledPrograms()),
		found: map[string]foundUnit{},
	}
	c, err := systemd.Connect(systemd.Own())
	if err != nil {
		return own
	}
	defer c.Close()
	for _, file := range own.Files {
		unit, err := c.Unit(file.Name)
		if err != nil {
			continue
		}
		found := foundUnit{Unit: unit}
		if strings.HasSuffix(file.Name, ".service") {
			service, err := c.Service(file.Name)
			if err == nil && len(service.Commands) > 0 {
				found.Program = service.Commands[0].Program
			}
		}
		own.found[file.Name] = found
	}
	return own
}

// Install installs the units that the packages have not. A copy would stay when the package is removed, and
// start a program that no longer exists. A copy that is there already is kept up to date.
func (o Own) Install() []FileResult {
	return forEach(o.Files, o.Dir, func(file File) (Result, error) {
		if o.isPackaged(file) {
			return Packaged, nil
		}
		return file.Install(o.Dir)
	})
}

// Remove removes each file that it can. The unit of a package stays, and is disabled.
func (o Own) Remove() []FileResult {
	return forEach(o.Files, o.Dir, func(file File) (Result, error) {
		result, err := file.Remove(o.Dir)
		if result == Absent && o.isElsewhere(file) {
			return Packaged, err
		}
		return result, err
	})
}

// isElsewhere reports whether the manager has read a unit outside of the directory.
func (o Own) isElsewhere(file File) bool {
	fragment := o.found[file.Name].Fragment
	return fragment != "" && fragment != file.Path(o.Dir)
}

// isPackaged reports whether a package has a unit of that name, and that starts this mcpscope, if anything.
func (o Own) isPackaged(file File) bool {
	if !o.isElsewhere(file) {
		return false
	}
	program := o.found[file.Name].Program
	if program == "" {
		return true
	}
	runner, err := programs.FindRunner()
	return err == nil && isSameFile(program, runner)
}

func isSameFile(path, other string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	otherInfo, err := os.Stat(other)
	return err == nil && os.SameFile(info, otherInfo)
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
func (o Own) StopStep() (stop Step, isNeeded bool) {
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
