// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

type unitsFlags struct {
	system, user, install, remove, force, now bool
	unit                                      string
}

func unitsCommand(io cli.Stdio) *cobra.Command {
	var f unitsFlags
	c := command(spec{
		use: "units [NAME…] [flags]", short: "print or install units of systemd", operands: unitOperands,
		examples: `  mcpscope units --install
  mcpscope units gateway --unit hermes-gateway.service --install --now
`,
		long: `Prints units of systemd, with the path of this mcpscope in them; all, or those that
are named:

  mcpscope-sweep.service, .timer   end orphans, every five minutes
  mcpscope-metrics.service         figures for Prometheus, on 127.0.0.1:9500
  mcp.slice                        where servers are, with limits for all of
                                   them to fill in
  mcp-server@.service              for a server that systemd itself runs
  gateway                          a drop-in for the service of a gateway, UNIT,
                                   that puts mcpscope gateway before its command

Of the gateway's unit the manager is asked; one that it does not know is refused.`,
	}, func(operands []string) int { return f.run(operands, io) })
	fs := c.Flags()
	fs.BoolVar(&f.system, "system", false, "for the system manager (default for root), in /etc/systemd/system")
	fs.BoolVar(&f.user, "user", false, "for your own manager (default for others), in ~/.config/systemd/user")
	fs.BoolVar(&f.install, "install", false, "write them there, but none over a file that was changed since")
	fs.BoolVar(&f.remove, "remove", false, "remove them there, but none that was changed since")
	fs.BoolVar(&f.now, "now", false, "and enter what it says to enter then")
	fs.BoolVar(&f.force, "force", false, "also those that were changed")
	fs.StringVar(&f.unit, "unit", "", "the service of the gateway: `UNIT`")
	return c
}

func (f *unitsFlags) run(operands []string, io cli.Stdio) int {
	files, err := f.choose(operands)
	if errors.As(err, new(*unitError)) {
		return io.Cannot("find the gateway", err)
	}
	if err != nil {
		return io.Mistake("units", err.Error())
	}
	dir, err := f.dir()
	if err != nil {
		return io.Cannot("find the units", err)
	}
	switch {
	case f.install:
		return f.each(files, dir, io, "install", units.File.Install)
	case f.remove:
		return f.each(files, dir, io, "remove", units.File.Remove)
	}
	for i, file := range files {
		if i > 0 {
			fmt.Fprintln(io.Out)
		}
		fmt.Fprintf(io.Out, "# %s\n%s", cli.OneLine(filepath.Join(dir, file.Name)), file.Text)
	}
	return cli.ExitOK
}

// choose returns the files that are meant. The gateway's is never among all: it is for a
// unit that we don't know.
func (f *unitsFlags) choose(names []string) ([]units.File, error) {
	switch {
	case f.system && f.user:
		return nil, errors.New("--system or --user, not both")
	case f.install && f.remove:
		return nil, errors.New("--install or --remove, not both")
	case f.now && !f.install && !f.remove:
		return nil, errors.New("--now is for --install and --remove")
	case f.unit != "" && !slices.Contains(names, gateway):
		return nil, errors.New("--unit is for the gateway's drop-in: mcpscope units gateway --unit UNIT")
	}
	all := units.All(f.manager(), installedPaths())
	if len(names) == 0 {
		return all, nil
	}
	var meant []units.File
	for _, name := range names {
		if name == gateway {
			file, err := f.gateway()
			if err != nil {
				return nil, err
			}
			meant = append(meant, file)
			continue
		}
		at := slices.IndexFunc(all, func(u units.File) bool { return u.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("there is no unit %q; there are %s", name, unitNames(all))
		}
		meant = append(meant, all[at])
	}
	return meant, nil
}

// gateway is what the drop-in for a gateway is called.
const gateway = "gateway"

func (f *unitsFlags) gateway() (units.File, error) {
	if f.unit == "" && (f.install || f.remove) {
		return units.File{}, errors.New("the drop-in of which service? Give --unit UNIT")
	}
	unit, err := units.CheckService(cmp.Or(f.unit, "NAME"))
	service := units.Service{Argv: []string{"COMMAND"}, Identifier: "NAME"}
	if err == nil && f.unit != "" && !f.remove {
		if service, err = f.serviceOf(unit); err != nil {
			err = &unitError{err}
		}
	}
	if err != nil {
		return units.File{}, err
	}
	return units.Gateway(unit, service, installedPaths()), nil
}

// unitError is of a service that can't be a gateway's; it is no mistake in the arguments.
type unitError struct{ error }

func (e *unitError) Unwrap() error { return e.error }

func unitNames(all []units.File) string {
	var names []string
	for _, u := range all {
		names = append(names, u.Name)
	}
	return strings.Join(append(names, gateway), ", ")
}

func (f *unitsFlags) manager() units.Manager {
	if f.system || !f.user && os.Getuid() == 0 {
		return units.System
	}
	return units.User
}

// dir is where the administrator's, or the user's own, units are.
func (f *unitsFlags) dir() (string, error) {
	if f.manager() == units.System {
		return "/etc/systemd/system", nil
	}
	dir := settings.UserDir(os.Getenv)
	if dir == "" {
		return "", errors.New("HOME is not set")
	}
	return filepath.Join(dir, "systemd", "user"), nil
}

// each does one thing to all files, and says how it went. What it changed the manager has to be
// told.
func (f *unitsFlags) each(files []units.File, dir string, io cli.Stdio, verb string, do func(units.File, string, bool) (units.Result, error)) int {
	status, news := cli.ExitOK, false
	for _, file := range files {
		path := filepath.Join(dir, file.Name)
		result, err := do(file, dir, f.force)
		switch {
		case errors.Is(err, units.ErrChanged):
			status = io.Cannot(verb+" "+path, errors.New("it was changed, or is not ours; --force does it nevertheless"))
		case err != nil:
			status = io.Cannot(verb+" "+path, err)
		default:
			fmt.Fprintf(io.Out, "%s %s\n", result, cli.OneLine(path))
			news = news || result != units.Unchanged && result != units.Absent
		}
	}
	switch {
	case f.now && (news || f.install && status == cli.ExitOK): // what was there before may not have been acted on
		return max(status, f.act(files, io))
	case !news:
		return status
	}
	line, between := "", ""
	for _, step := range f.next(files) {
		line += between + step.String()
		between = step.then
	}
	fmt.Fprintf(io.Out, "now: %s\n", line)
	return status
}

// act enters what else would be said to enter.
func (f *unitsFlags) act(files []units.File, io cli.Stdio) int {
	for _, step := range f.next(files) {
		cmd := exec.Command(step.argv[0], step.argv[1:]...)
		out, err := cmd.CombinedOutput()
		if err != nil && step.then == whatever {
			continue
		}
		if err != nil {
			return io.Cannot(step.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out))))
		}
		fmt.Fprintf(io.Out, "done: %s\n", step)
	}
	return cli.ExitOK
}

// step is a command to enter, and what stands between it and the next one.
type step struct {
	argv []string
	then string
}

const (
	whatever = "; " // its failure does not matter
	ifDone   = " && "
)

func (s step) String() string { return strings.Join(s.argv, " ") }

// next are the commands that make the manager act on what was installed or removed.
func (f *unitsFlags) next(files []units.File) (steps []step) {
	systemctl := []string{"systemctl"}
	if f.manager() == units.User {
		systemctl = append(systemctl, "--user")
	}
	add := func(then string, words ...string) {
		steps = append(steps, step{append(slices.Clone(systemctl), words...), then})
	}
	const timer = "mcpscope-sweep.timer"
	timed := f.unit == "" && slices.ContainsFunc(files, func(u units.File) bool { return u.Name == timer })
	if timed && f.remove {
		add(whatever, "stop", timer) // it may never have been started
	}
	add(ifDone, "daemon-reload")
	switch {
	case f.unit != "" && f.remove:
		add(ifDone, "try-restart", f.unit) // a removal starts no service
	case f.unit != "":
		add(ifDone, "restart", f.unit)
	case timed && f.install:
		add(ifDone, "enable", "--now", timer)
	}
	return steps
}
