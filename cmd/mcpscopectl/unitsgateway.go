// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/units"
)

// gateway prints, installs or removes the drop-in of a gateway.
func (u *unitsCall) gateway(dir string) int {
	if u.remove {
		removal, err := u.planRemoval(dir)
		if err != nil {
			return u.stdio.Cannot(goalOf(u), err)
		}
		return u.removeDropIn(removal, dir)
	}
	dropIn, err := u.planDropIn(dir)
	switch {
	case err != nil:
		return u.stdio.Cannot(goalOf(u), err)
	case u.install:
		return u.installDropIn(dropIn, dir)
	}
	return u.previewDropIn(dropIn, dir)
}

func (u *unitsCall) planRemoval(dir string) (units.DropInRemoval, error) {
	name, err := units.ParseServiceName(u.unit)
	if err != nil {
		return units.DropInRemoval{}, err
	}
	return units.PlanDropInRemoval(name, dir)
}

func (u *unitsCall) planDropIn(dir string) (units.DropIn, error) {
	name, err := units.ParseServiceName(u.unit)
	if err != nil {
		return units.DropIn{}, err
	}
	gateway, err := units.FindGateway(name, dir)
	if u.now && errors.Is(err, units.ErrOutdated) {
		gateway, err = units.ReloadGateway(name)
	}
	if err != nil {
		return units.DropIn{}, err
	}
	return u.dropInOf(gateway)
}

func (u *unitsCall) dropInOf(gateway units.Gateway) (units.DropIn, error) {
	flags, err := gateway.Flags(u.gatewayFlags)
	if err != nil {
		return units.DropIn{}, err
	}
	return gateway.DropIn(units.InstalledPrograms(), flags)
}

// previewDropIn prints the drop-in, and the notes that an installation would have.
func (u *unitsCall) previewDropIn(d units.DropIn, dir string) int {
	u.printFiles([]units.File{d.File}, dir)
	for _, note := range slices.Concat(d.Notes(units.Installed), d.LimitNotes()) {
		u.stdio.Note(note)
	}
	return cli.ExitOK
}

func (u *unitsCall) installDropIn(d units.DropIn, dir string) int {
	if err := d.CheckFormer(dir); err != nil {
		return u.stdio.Cannot("replace "+d.FormerPath(dir), err)
	}
	path := d.File.Path(dir)
	result, err := d.Install(dir)
	if err != nil {
		return u.stdio.Cannot("install "+path, err)
	}
	u.printResult(result, path)
	u.printAbout(d)
	for _, note := range slices.Concat(d.Notes(result), d.LimitNotes()) {
		u.stdio.Note(note)
	}
	if u.now {
		if status := u.putInForce(d, dir, result); status != cli.ExitOK {
			return status
		}
		return u.restart(d)
	}
	former, err := u.removeFormer(d, dir)
	if err != nil {
		return u.stdio.Cannot("remove "+d.FormerPath(dir), err)
	}
	isAsBefore := result == units.Unchanged && former == units.Absent
	if isAsBefore && !d.IsPending() {
		return cli.ExitOK
	}
	return u.takeSteps(d.RemainingSteps()...)
}

// printAbout prints facts about an installed drop-in.
func (u *unitsCall) printAbout(d units.DropIn) {
	about := func(line string) { fmt.Fprintln(u.stdio.Out, cli.OneLine(line)) }
	if d.Flags.Kept {
		about("kept: " + d.Flags.String())
	} else if len(d.Flags.Words) > 0 {
		about("flags: " + d.Flags.String())
	}
	if d.GroupNote != "" {
		about(d.GroupNote)
	}
	if d.LogCommand != "" {
		about("log: " + d.LogCommand)
	}
}

func (u *unitsCall) removeFormer(d units.DropIn, dir string) (units.Result, error) {
	former, err := d.RemoveFormer(dir)
	if err == nil && former == units.Removed {
		u.printResult(former, d.FormerPath(dir))
	}
	return former, err
}

// putInForce has the manager read an installed drop-in.
func (u *unitsCall) putInForce(d units.DropIn, dir string, result units.Result) int {
	if status := u.takeSteps(units.ReloadStep()); status != cli.ExitOK {
		return status
	}
	return u.finishInForce(d, dir, result)
}

// finishInForce comes after the reload. The manager starts the gateway by the drop-in then, or that fails.
func (u *unitsCall) finishInForce(d units.DropIn, dir string, result units.Result) int {
	err := d.CheckInForce(dir, result)
	if err == nil {
		err = u.replaceFormer(d, dir)
	}
	if err != nil {
		return u.stdio.Cannot("put "+d.File.Path(dir)+" in force", err)
	}
	return cli.ExitOK
}

// replaceFormer removes the former drop-in, which the manager has, too.
func (u *unitsCall) replaceFormer(d units.DropIn, dir string) error {
	former, err := u.removeFormer(d, dir)
	if err != nil || former != units.Removed {
		return err
	}
	return units.ReloadStep().Run()
}

// restart starts a gateway by its drop-in. It succeeds only if the servers of the gateway can be contained.
func (u *unitsCall) restart(d units.DropIn) int {
	gateway := d.Gateway
	postponed := gateway.WhyNotStarted()
	if postponed != nil {
		u.stdio.Note(postponed.Reason)
		u.stdio.Hint(postponed.Remedy)
		return cli.ExitOK
	}
	if status := u.takeSteps(gateway.RestartStep()); status != cli.ExitOK {
		u.stdio.Hint("the drop-in stays; to undo it: mcpscope units --unit " + u.unit + " --remove --now")
		return status
	}
	contained, err := gateway.AwaitContainment()
	if err != nil || contained.State == containment.Uncontained {
		return u.printContainment(contained, err)
	}
	settled, err := gateway.AwaitServers(func() int { return countServers(gateway.Name.Full) })
	status := u.printContainment(settled.Containment, err)
	if status == cli.ExitOK {
		text := serversText(settled.Servers)
		fmt.Fprintf(u.stdio.Out, "%s runs: %s\n", cli.OneLine(u.unit), text)
		reportServers(u.stdio, d, settled.MainPID)
	}
	return status
}

// reportServers prints the notes of a gateway about its servers, unless their limits have a note already.
func reportServers(stdio cli.Stdio, d units.DropIn, gateway int) {
	if len(d.LimitNotes()) > 0 {
		return
	}
	for _, line := range containment.LinesOf(selection.Whose(os.Getuid() == 0), gateway) {
		stdio.Note(line)
	}
}

// countServers counts the servers of a service, as far as they can be listed.
func countServers(service string) (count int) {
	everyone := selection.Filter{AllUsers: os.Getuid() == 0} // the service can have User=
	servers, _ := everyone.List()
	defer selection.Close(servers)
	for _, s := range servers {
		if s.Client.Unit == service {
			count++
		}
	}
	return count
}

// serversText has the number of servers of a gateway that was just started. Many gateways start a server only
// when a client needs it.
func serversText(count int) string {
	if count == 0 {
		return "no server yet; the first one will be in " + listCommand()
	}
	return cli.Counted(count, "server") + " so far"
}

// listCommand lists the servers of the units that this user installs.
func listCommand() string {
	if os.Getuid() == 0 {
		return "mcpscope ls --all-users"
	}
	return "mcpscope ls"
}

// printContainment reports a service whose servers cannot be contained. The installation has succeeded.
func (u *unitsCall) printContainment(c units.Containment, err error) int {
	goal := "see whether the servers of " + u.unit + " are contained"
	switch {
	case err != nil:
		return u.stdio.Cannot(goal, err)
	case c.State == containment.Undecided:
		return u.stdio.Cannot(goal, remedy.With(errors.New(c.Reason), c.Remedy))
	case c.State == containment.Uncontained:
		reason := cli.ErrorText(c.Reason)
		fmt.Fprintf(u.stdio.Err, "mcpscope: the servers of %s are NOT contained: %s\n", u.unit, reason)
		u.stdio.Hint(c.Remedy)
		return cli.ExitFailure
	case c.State == containment.Weaker:
		const text = "the servers of %s are contained without cgroups, which is weaker: %s"
		u.stdio.Note(fmt.Sprintf(text, u.unit, cli.ErrorText(c.Reason)))
		u.stdio.Hint(c.Remedy)
	}
	return cli.ExitOK
}

// removeDropIn removes the drop-ins of this version and of former ones.
func (u *unitsCall) removeDropIn(removal units.DropInRemoval, dir string) int {
	results := units.RemoveAll(removal.Files, dir)
	status := u.printResults("remove", results)
	if !units.AnyChanged(results) && (status != cli.ExitOK || !removal.IsPending()) {
		return status
	}
	if !removal.HasUnit {
		u.stdio.Note("there is no unit file of " + u.unit + ": a process of it that still runs is below " +
			"mcpscope until it ends")
	}
	status = max(status, u.takeSteps(removal.Steps()...))
	if !u.now || status != cli.ExitOK || !removal.HasUnit {
		return status
	}
	return u.finishRemoval(removal)
}

// finishRemoval comes after the steps: the manager starts the gateway without mcpscope then, or that fails.
func (u *unitsCall) finishRemoval(removal units.DropInRemoval) int {
	if err := removal.CheckInForce(); err != nil {
		return u.stdio.Cannot("take "+u.unit+" out of mcpscope", err)
	}
	return cli.ExitOK
}
