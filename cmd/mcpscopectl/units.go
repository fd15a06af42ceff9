// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// unitsCall is one call of mcpscope units.
type unitsCall struct {
	stdio        cli.Stdio
	install      bool
	remove       bool
	now          bool
	isGateway    bool     // the call is for the service of a gateway
	unit         string   // its name
	gatewayFlags []string // each with its value in one word
}

func unitsCommand(stdio cli.Stdio) *cobra.Command {
	u := unitsCall{stdio: stdio}
	c := command(spec{
		use: "units [flags]", short: "print or install systemd units",
		examples: `  mcpscope units --install --now
  mcpscope units --unit hermes-gateway.service --install --now
  mcpscope units --unit my-gateway --match 'python my.py' --install --now
`,
		long: `Print systemd units that contain the path of this mcpscope:

  mcpscope-sweep.service, .timer   stop orphans every five minutes
  mcpscope-metrics.service         metrics for Prometheus, on 127.0.0.1:9500

With --unit, print a drop-in for the service of a gateway instead. It inserts
mcpscope gateway before the service's command, which is read from systemd. The
service must exist. Flags of mcpscope gateway, such as --match GLOB, --except
GLOB and --memory-max SIZE, are written before the command. An --install with
flags replaces those of the drop-in, one without flags keeps them. --remove
clears them. If the service does not come up under mcpscope, --now removes the
drop-in again, and the service runs as before.

The units of root are for the system manager (/etc/systemd/system), those of
other users for their own manager (~/.config/systemd/user).`,
	}, func([]string) int { return u.run() })
	fs := c.Flags()
	c.PreRun = func(*cobra.Command, []string) { u.isGateway = fs.Changed("unit") }
	fs.StringVar(&u.unit, "unit", "", "print the drop-in for gateway service `UNIT`")
	fs.BoolVar(&u.install, "install", false, "write the files; an edited file is kept")
	fs.BoolVar(&u.remove, "remove", false, "disable the units and remove the files; an edited file is kept")
	fs.BoolVar(&u.now, "now", false, "do what the systemctl commands would, instead of printing them")
	for _, row := range settings.Rows(settings.Gateway) {
		if row.Name == "explain" || row.Name == "check" { // for one run
			continue
		}
		flag := fs.VarPF(&gatewayFlag{row, &u.gatewayFlags}, row.Name, row.Short, row.Help)
		flag.Hidden = true // mcpscope help gateway has them
		if row.Switch() {
			flag.NoOptDefVal = "true"
		}
	}
	return c
}

// gatewayFlag is a flag of mcpscope gateway that goes into the drop-in. All are collected in their order.
type gatewayFlag struct {
	row   *settings.Row
	flags *[]string
}

func (g *gatewayFlag) Set(value string) error {
	*g.flags = append(*g.flags, flags.Dashes(g.row.Name)+"="+value)
	return nil
}

func (g *gatewayFlag) String() string { return "" }

func (g *gatewayFlag) Type() string { return g.row.Arg }

func (u *unitsCall) run() int {
	if err := u.check(); err != nil {
		return u.stdio.Mistake("units", err.Error())
	}
	dir, goal, err := u.prepare()
	if err != nil {
		return u.stdio.Cannot(goal, err)
	}
	if u.install {
		u.noteProgram()
	}
	if u.isGateway {
		return u.ofGateway(dir).run()
	}
	return u.ownFiles(dir)
}

// prepare returns the directory of the units. With an error, it returns the goal that the call cannot reach,
// before anything is written.
func (u *unitsCall) prepare() (dir, goal string, err error) {
	dir, err = units.Dir()
	if err != nil {
		return "", "find the units", err
	}
	if !u.remove {
		if err := checkLasting(); err != nil {
			return "", "write units", err
		}
	}
	if u.isGateway {
		if err := u.checkOwner(); err != nil {
			return "", u.goal(), err
		}
	}
	if u.install || u.now {
		if err := units.CheckManager(); err != nil {
			return "", "reach systemd", err
		}
	}
	if u.install {
		if err := checkTemporary(units.InstalledPrograms().Mcpscope); err != nil {
			return "", "write units", err
		}
	}
	return dir, "", nil
}

// checkTemporary returns an error for a program that is removed at the next boot.
func checkTemporary(program string) error {
	return remedy.With(programs.CheckTemporary(program), "install mcpscope permanently, then mcpscope units")
}

// noteProgram prints a note if the units start a program that is not installed.
func (u *unitsCall) noteProgram() {
	runner, err := programs.FindRunner()
	if err != nil {
		return // the units name the path of make install
	}
	again := "/usr/local/bin/mcpscope units --install"
	if u.isGateway {
		again += " --unit " + cli.Word(u.unit)
	}
	noteNotInstalled(u.stdio, runner, "the units start", again)
}

// checkLasting returns an error if the program that units would start may be removed with a cache.
func checkLasting() error {
	runner, err := programs.FindRunner()
	if err != nil {
		return nil // the units name the path of make install
	}
	return withCacheStep(programs.CheckLasting(runner))
}

// withCacheStep lets only the error of a cache pass, and adds its remedy.
func withCacheStep(err error) error {
	cache, ok := errors.AsType[*programs.CacheError](err)
	if !ok {
		return nil
	}
	return remedy.With(cache, cache.Step("units"))
}

// check returns a mistake in the flags.
func (u *unitsCall) check() error {
	switch {
	case u.install && u.remove:
		return errors.New("--install and --remove exclude each other")
	case u.isGateway && u.unit == "":
		return errors.New("--unit needs the name of a service")
	case u.now && !u.install && !u.remove:
		return errors.New("--now is for --install and --remove")
	case len(u.gatewayFlags) == 0:
		return nil
	case !u.isGateway || u.remove:
		return errors.New("flags of mcpscope gateway are for --unit UNIT, and not for --remove")
	}
	_, _, err := settings.Defaults().FromArguments(settings.Gateway, u.gatewayFlags)
	return err
}

// ownFiles prints, installs or removes the units of mcpscope itself.
func (u *unitsCall) ownFiles(dir string) int {
	own := units.FindOwn(dir)
	switch {
	case u.install:
		return u.installOwn(own)
	case u.remove:
		return u.removeOwn(own)
	}
	for _, file := range own.Files {
		fmt.Fprintf(u.stdio.Out, "# %s\n%s\n", cli.OneLine(file.Path(dir)), file.Text)
	}
	return cli.ExitOK
}

// installOwn enables the units of a package, where there are some, instead of copies.
func (u *unitsCall) installOwn(own units.OwnUnits) int {
	results := own.Install()
	status := u.printResults("install", results)
	ofPackage := func(r units.FileResult) bool { return r.Result == units.Packaged }
	isPackaged := slices.ContainsFunc(results, ofPackage)
	if isPackaged {
		u.stdio.Note("a unit that is packaged is used as it is: there is no copy of it in " + own.Dir)
	}
	mayBePending := u.now && status == cli.ExitOK // an earlier installation may not be in force
	if !units.AnyChanged(results) && !isPackaged && !mayBePending {
		return status
	}
	return max(status, u.takeSteps(units.EnableSteps()...))
}

// removeOwn stops the units first: a service goes on without its file.
func (u *unitsCall) removeOwn(own units.OwnUnits) int {
	stop, isNeeded := own.StopStep()
	var steps []units.Step
	switch {
	case isNeeded && u.now:
		if status := u.takeSteps(stop); status != cli.ExitOK {
			return status
		}
	case isNeeded:
		steps = append(steps, stop)
	}
	results := own.Remove()
	status := u.printResults("remove", results)
	u.noteGateways(own.Dir)
	if units.AnyChanged(results) {
		steps = append(steps, units.ReloadStep())
	}
	if len(steps) == 0 {
		return status
	}
	return max(status, u.takeSteps(steps...))
}

// noteGateways prints which services still have a drop-in: without mcpscope they do not start.
func (u *unitsCall) noteGateways(dir string) {
	for _, unit := range units.Gateways(dir) {
		name := strings.TrimSuffix(unit, ".service")
		u.stdio.Note(cli.OneLine(name + " still has mcpscope in front, and does not start without it"))
		u.stdio.Hint("mcpscope units --unit " + cli.Word(name) + " --remove --now")
	}
}

// printResults returns the status of a change of files: a failure if one could not be changed.
func (u *unitsCall) printResults(verb string, results []units.FileResult) int {
	status := cli.ExitOK
	for _, r := range results {
		if r.Err != nil {
			status = u.stdio.Cannot(verb+" "+r.Path, r.Err)
			continue
		}
		path := r.Path
		if r.Result == units.Packaged || r.Result == units.Disabled { // there is no file at that path
			path = filepath.Base(path)
		}
		u.printResult(r.Result, path)
	}
	return status
}

func (u *unitsCall) printResult(result units.Result, path string) {
	fmt.Fprintf(u.stdio.Out, "%s %s\n", result, cli.OneLine(path))
}

// takeSteps runs the steps that put changed files in force, or prints them without --now.
func (u *unitsCall) takeSteps(steps ...units.Step) int {
	if !u.now {
		fmt.Fprintf(u.stdio.Out, "now: %s\n", units.ShellLine(steps))
		return cli.ExitOK
	}
	for _, s := range steps {
		if err := s.Run(); err != nil {
			return u.stdio.Cannot(s.Command, err)
		}
		fmt.Fprintf(u.stdio.Out, "done: %s\n", s.Command)
	}
	return cli.ExitOK
}
