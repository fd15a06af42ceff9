// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/kernel/systemd"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// Request is one call of mcpscope units. Root's request is for the system manager, all others are for the
// user's.
type Request struct {
	Install, Remove, Now bool
	Unit                 string // the service of a gateway, or "" for the units of mcpscope
}

// Run prints, installs or removes files, and returns the exit status.
func (f *Request) Run(io cli.Stdio) int {
	switch {
	case f.Install && f.Remove:
		return io.Mistake("units", "--install and --remove exclude each other")
	case f.Now && !f.Install && !f.Remove:
		return io.Mistake("units", "--now is for --install and --remove")
	}
	dir, err := Dir()
	if err != nil {
		return io.Cannot("find the units", err)
	}
	files := All(systemd.Own(), InstalledPrograms())
	if f.Unit != "" {
		file, err := f.dropIn()
		if err != nil {
			return io.Cannot("find the command of the gateway", err)
		}
		files = []File{file}
	}
	switch {
	case f.Install:
		status := f.each(files, dir, io, "install", File.Install)
		if status == cli.ExitOK && f.Now && f.Unit != "" {
			return f.check(io)
		}
		return status
	case f.Remove:
		return f.each(files, dir, io, "remove", File.Remove)
	}
	for _, file := range files {
		fmt.Fprintf(io.Out, "# %s\n%s\n", cli.OneLine(filepath.Join(dir, file.Name)), file.Text)
	}
	return cli.ExitOK
}

func (f *Request) dropIn() (File, error) {
	unit, err := CheckService(f.Unit)
	if err != nil || f.Remove {
		return File{Name: dropInOf(unit)}, err
	}
	s, err := loadService(systemd.Own(), unit)
	if err != nil {
		return File{}, err
	}
	return dropIn(s, InstalledPrograms())
}

// check reports a service whose servers cannot be contained. Everything else has succeeded by then.
func (f *Request) check(io cli.Stdio) int {
	unit, err := CheckService(f.Unit)
	if err != nil {
		return io.Cannot("find the service", err)
	}
	goal := "see whether the servers of " + f.Unit + " are contained"
	c, err := AwaitContainment(systemd.Own(), unit)
	switch {
	case err != nil:
		return io.CannotWithHint(goal, err, systemctlCommand(systemd.Own())+" status "+f.Unit)
	case c.State == containment.Undecided:
		return io.CannotWithHint(goal, errors.New(c.Reason), c.Remedy)
	case c.State == containment.Uncontained:
		reason := cli.ErrorText(c.Reason)
		fmt.Fprintf(io.Err, "mcpscope: the servers of %s are NOT contained: %s\n", f.Unit, reason)
		io.Hint(c.Remedy)
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// Dir is where the administrator's, or the user's own, units are.
func Dir() (string, error) {
	if systemd.Own() == systemd.System {
		return "/etc/systemd/system", nil
	}
	dir := settings.UserDir(os.Getenv)
	if dir == "" {
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(dir, "systemd", "user"), nil
}

// each installs or removes files. The manager has to read what it changed: see next.
func (f *Request) each(
	files []File, dir string, io cli.Stdio, verb string, do func(File, string) (Result, error),
) int {
	status, changed := cli.ExitOK, false
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		result, err := do(file, dir)
		if err != nil {
			status = io.Cannot(verb+" "+path, err)
			continue
		}
		fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(path))
		changed = changed || result != Unchanged && result != Absent
	}
	steps := f.next()
	switch {
	case f.Now && (changed || f.Install && status == cli.ExitOK): // what was there before may not be in force
		for _, s := range steps {
			if err := s.run(); err != nil {
				return io.Cannot(s.String(), err)
			}
			fmt.Fprintf(io.Out, "done: %s\n", s)
		}
	case changed:
		fmt.Fprintf(io.Out, "now: %s\n", joinSteps(steps))
	}
	return status
}

// next are the commands that put in force what was installed or removed.
func (f *Request) next() []step {
	reload := systemctlStep("daemon-reload")
	switch {
	case f.Unit != "" && f.Remove:
		return []step{reload, systemctlStep("try-restart", f.Unit)} // a removal starts no service
	case f.Unit != "":
		return []step{reload, systemctlStep("restart", f.Unit)}
	case f.Install:
		return []step{reload, systemctlStep("enable", "--now", "mcpscope-sweep.timer")}
	}
	stop := systemctlStep("stop", "mcpscope-sweep.timer")
	stop.mayFail = true // it may never have been started
	return []step{stop, reload}
}

// step is a command that puts files in force.
type step struct {
	argv    []string
	mayFail bool
}

// systemctlStep is a call of systemctl for the manager of this user.
func systemctlStep(args ...string) step {
	argv := []string{"systemctl"}
	if systemd.Own() == systemd.User {
		argv = append(argv, "--user")
	}
	return step{argv: append(argv, args...)}
}

func (s step) run() error {
	cmd := exec.Command(s.argv[0], s.argv[1:]...)
	cmd.Env = managerEnvironment()
	out, err := cmd.CombinedOutput()
	if err != nil && !s.mayFail {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (s step) String() string { return strings.Join(s.argv, " ") }

// joinSteps makes a line for a shell. The only special character of a name is the backslash.
func joinSteps(steps []step) string {
	var line strings.Builder
	for i, s := range steps {
		line.WriteString(strings.ReplaceAll(s.String(), `\`, `\\`))
		switch {
		case i == len(steps)-1:
		case s.mayFail:
			line.WriteString("; ")
		default:
			line.WriteString(" && ")
		}
	}
	return line.String()
}
