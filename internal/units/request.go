// SPDX-License-Identifier: Apache-2.0

package units

import (
	"fmt"
	"path/filepath"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Request is one call of mcpscope units. Root's request is for the system manager, all others are for the
// user's.
type Request struct {
	Install, Remove, Now bool
	Gateway              bool     // the request is for the service of a gateway
	Unit                 string   // its name
	GatewayFlags         []string // of `mcpscope gateway`, each with its value in one word
}

// Run prints, installs or removes files, and returns the exit status.
func (f *Request) Run(io cli.Stdio) int {
	switch {
	case f.Install && f.Remove:
		return io.Mistake("units", "--install and --remove exclude each other")
	case f.Gateway && f.Unit == "":
		return io.Mistake("units", "--unit needs the name of a service")
	case f.Now && !f.Install && !f.Remove:
		return io.Mistake("units", "--now is for --install and --remove")
	}
	if len(f.GatewayFlags) > 0 {
		if !f.Gateway || f.Remove {
			return io.Mistake("units", "flags of mcpscope gateway are for --unit UNIT, and not for --remove")
		}
		if _, _, err := settings.Defaults().FromArguments(settings.Gateway, f.GatewayFlags); err != nil {
			return io.Mistake("units", err.Error())
		}
	}
	dir, err := Dir()
	if err != nil {
		return io.Cannot("find the units", err)
	}
	if f.Install || f.Now { // before anything is written
		if err := systemd.Present(systemd.Own()); err != nil {
			return io.CannotWithHint("reach systemd", err, managerHint())
		}
	}
	if f.Gateway {
		return f.runGateway(dir, io)
	}
	files := All(systemd.Own(), InstalledPrograms())
	reload := systemctlStep("daemon-reload")
	switch {
	case f.Install:
		enable := systemctlStep("enable", "--now", "mcpscope-sweep.timer")
		return f.each(files, dir, io, "install", File.Install, []step{reload, enable})
	case f.Remove:
		return f.removeOwn(files, dir, io)
	}
	printFiles(files, dir, io)
	return cli.ExitOK
}

// removeOwn stops the units first: afterwards a metrics service would go on without a file.
func (f *Request) removeOwn(files []File, dir string, io cli.Stdio) int {
	var names []string
	for _, file := range files {
		if _, err := current(filepath.Join(dir, file.Name)); err == nil { // others stay
			names = append(names, file.Name)
		}
	}
	stop := systemctlStep(append([]string{"stop"}, names...)...)
	reload := systemctlStep("daemon-reload")
	if len(names) == 0 || !f.Now {
		stop.mayFail = true // a unit without a file is known while it runs
		return f.each(files, dir, io, "remove", File.Remove, []step{stop, reload})
	}
	if status := runSteps([]step{stop}, io); status != cli.ExitOK {
		return status
	}
	return f.each(files, dir, io, "remove", File.Remove, []step{reload})
}

func printFiles(files []File, dir string, io cli.Stdio) {
	for _, file := range files {
		fmt.Fprintf(io.Out, "# %s\n%s\n", cli.OneLine(filepath.Join(dir, file.Name)), file.Text)
	}
}

// each installs or removes files. The steps put the result in force.
func (f *Request) each(
	files []File, dir string, io cli.Stdio, verb string, do func(File, string) (Result, error), steps []step,
) int {
	status, changed := change(files, dir, io, verb, do)
	pending := changed || f.Install && status == cli.ExitOK && f.Now // an earlier one may not be in force
	if !pending {
		return status
	}
	return f.finish(status, steps, io)
}

// change installs or removes files, and reports whether one is different now.
func change(
	files []File, dir string, io cli.Stdio, verb string, do func(File, string) (Result, error),
) (status int, changed bool) {
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		result, err := do(file, dir)
		if err != nil {
			status = io.CannotWithHint(verb+" "+path, err, file.hintForChanged(err, dir))
			continue
		}
		fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(path))
		changed = changed || result != Unchanged && result != Absent
	}
	return status, changed
}

// finish runs the steps that put changed files in force, or prints them.
func (f *Request) finish(status int, steps []step, io cli.Stdio) int {
	if !f.Now {
		fmt.Fprintf(io.Out, "now: %s\n", joinSteps(steps))
		return status
	}
	if failed := runSteps(steps, io); failed != cli.ExitOK {
		return failed
	}
	return status
}
