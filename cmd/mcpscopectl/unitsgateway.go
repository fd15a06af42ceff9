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
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/remedy"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/units"
)

// gatewayCall is a call for the drop-in of a gateway.
type gatewayCall struct {
	call  *unitsCall
	stdio cli.Stdio
	unit  string // the service of the gateway
	dir   string // of units
}

func (u *unitsCall) ofGateway(dir string) *gatewayCall {
	return &gatewayCall{call: u, stdio: u.stdio, unit: u.unit, dir: dir}
}

// run prints, installs or removes the drop-in.
func (g *gatewayCall) run() int {
	if g.call.remove {
		removal, err := g.planRemoval()
		if err != nil {
			return g.stdio.Cannot(g.call.goal(), err)
		}
		return g.removeDropIn(removal)
	}
	dropIn, err := g.planDropIn()
	switch {
	case err != nil:
		return g.stdio.Cannot(g.call.goal(), err)
	case g.call.install:
		return g.installDropIn(dropIn)
	}
	return g.previewDropIn(dropIn)
}

func (g *gatewayCall) planRemoval() (units.DropInRemoval, error) {
	name, err := units.ParseServiceName(g.unit)
	if err != nil {
		return units.DropInRemoval{}, err
	}
	return units.PlanDropInRemoval(name, g.dir)
}

func (g *gatewayCall) planDropIn() (units.DropIn, error) {
	name, err := units.ParseServiceName(g.unit)
	if err != nil {
		return units.DropIn{}, err
	}
	gateway, err := units.FindGateway(name, g.dir)
	if g.call.now && errors.Is(err, units.ErrOutdated) {
		gateway, err = units.ReloadGateway(name)
	}
	if err != nil {
		return units.DropIn{}, err
	}
	return g.dropInOf(gateway)
}

func (g *gatewayCall) dropInOf(gateway units.Gateway) (units.DropIn, error) {
	flags, err := gateway.Flags(g.call.gatewayFlags)
	if err != nil {
		return units.DropIn{}, err
	}
	return gateway.DropIn(units.InstalledPrograms(), flags)
}

// previewDropIn prints the drop-in, and the notes that an installation would have.
func (g *gatewayCall) previewDropIn(d units.DropIn) int {
	g.call.printFiles([]units.File{d.File}, g.dir)
	for _, note := range slices.Concat(d.Notes(units.Installed), d.LimitNotes()) {
		g.stdio.Note(note)
	}
	return cli.ExitOK
}

func (g *gatewayCall) installDropIn(d units.DropIn) int {
	if err := d.CheckFormer(g.dir); err != nil {
		return g.stdio.Cannot("replace "+d.FormerPath(g.dir), err)
	}
	path := d.File.Path(g.dir)
	result, err := d.Install(g.dir)
	if err != nil {
		return g.stdio.Cannot("install "+path, err)
	}
	g.call.printResult(result, path)
	g.printAbout(d)
	for _, note := range slices.Concat(d.Notes(result), d.LimitNotes()) {
		g.stdio.Note(note)
	}
	if g.call.now {
		if status := g.putInForce(d, result); status != cli.ExitOK {
			return status
		}
		return g.restart(d)
	}
	former, err := g.removeFormer(d)
	if err != nil {
		return g.stdio.Cannot("remove "+d.FormerPath(g.dir), err)
	}
	isAsBefore := result == units.Unchanged && former == units.Absent
	if isAsBefore && !d.IsPending() {
		return cli.ExitOK
	}
	return g.call.takeSteps(d.RemainingSteps()...)
}

// printAbout prints facts about an installed drop-in.
func (g *gatewayCall) printAbout(d units.DropIn) {
	about := func(line string) { fmt.Fprintln(g.stdio.Out, cli.OneLine(line)) }
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

func (g *gatewayCall) removeFormer(d units.DropIn) (units.Result, error) {
	former, err := d.RemoveFormer(g.dir)
	if err == nil && former == units.Removed {
		g.call.printResult(former, d.FormerPath(g.dir))
	}
	return former, err
}

// putInForce has the manager read an installed drop-in.
func (g *gatewayCall) putInForce(d units.DropIn, result units.Result) int {
	if status := g.call.takeSteps(units.ReloadStep()); status != cli.ExitOK {
		return status
	}
	return g.finishInForce(d, result)
}

// finishInForce comes after the reload. The manager starts the gateway by the drop-in then, or that fails.
func (g *gatewayCall) finishInForce(d units.DropIn, result units.Result) int {
	err := d.CheckInForce(g.dir, result)
	if err == nil {
		err = g.replaceFormer(d)
	}
	if err != nil {
		return g.stdio.Cannot("put "+d.File.Path(g.dir)+" in force", err)
	}
	return cli.ExitOK
}

// replaceFormer removes the former drop-in, which the manager has, too.
func (g *gatewayCall) replaceFormer(d units.DropIn) error {
	former, err := g.removeFormer(d)
	if err != nil || former != units.Removed {
		return err
	}
	return units.ReloadStep().Run()
}

// restart starts a gateway by its drop-in. It succeeds only if the servers of the gateway can be contained.
func (g *gatewayCall) restart(d units.DropIn) int {
	gateway := d.Gateway
	postponed := gateway.WhyNotStarted()
	if postponed != nil {
		g.stdio.Note(postponed.Reason)
		g.stdio.Hint(postponed.Remedy)
		return cli.ExitOK
	}
	if status := g.call.takeSteps(gateway.RestartStep()); status != cli.ExitOK {
		g.stdio.Hint("the drop-in stays; to undo it: mcpscope units --unit " + g.unit + " --remove --now")
		return status
	}
	contained, err := gateway.AwaitContainment()
	if err != nil || contained.State == containment.Uncontained {
		return g.printContainment(contained, err)
	}
	settled, err := gateway.AwaitServers(func() int { return countServers(gateway.Name.Full) })
	status := g.printContainment(settled.Containment, err)
	if status == cli.ExitOK {
		text := serversText(settled.Servers)
		fmt.Fprintf(g.stdio.Out, "%s runs: %s\n", cli.OneLine(g.unit), text)
		reportServers(g.stdio, d, settled.MainPID)
	}
	return status
}

// reportServers prints the notes of a gateway about its servers, unless their limits have a note already.
func reportServers(stdio cli.Stdio, d units.DropIn, gateway int) {
	if len(d.LimitNotes()) > 0 {
		return
	}
	for _, line := range containment.LinesOf(proc.Take(), selection.Whose(os.Getuid() == 0), gateway) {
		stdio.Note(line)
	}
}

// countServers counts the servers of a service, as far as they can be listed.
func countServers(service string) (count int) {
	everyone := os.Getuid() == 0 // the service can have User=
	servers, _ := fleet.List(selection.Whose(everyone))
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
func (g *gatewayCall) printContainment(c units.Containment, err error) int {
	goal := "see whether the servers of " + g.unit + " are contained"
	switch {
	case err != nil:
		return g.stdio.Cannot(goal, err)
	case c.State == containment.Undecided:
		return g.stdio.Cannot(goal, remedy.With(errors.New(c.Reason), c.Remedy))
	case c.State == containment.Uncontained:
		reason := cli.ErrorText(c.Reason)
		fmt.Fprintf(g.stdio.Err, "mcpscope: the servers of %s are NOT contained: %s\n", g.unit, reason)
		g.stdio.Hint(c.Remedy)
		return cli.ExitFailure
	case c.State == containment.Weaker:
		const text = "the servers of %s are contained without cgroups, which is weaker: %s"
		g.stdio.Note(fmt.Sprintf(text, g.unit, cli.ErrorText(c.Reason)))
		g.stdio.Hint(c.Remedy)
	}
	return cli.ExitOK
}

// removeDropIn removes the drop-ins of this version and of former ones.
func (g *gatewayCall) removeDropIn(removal units.DropInRemoval) int {
	results := units.RemoveAll(removal.Files, g.dir)
	status := g.call.printResults("remove", results)
	if !units.AnyChanged(results) && (status != cli.ExitOK || !removal.IsPending()) {
		return status
	}
	if !removal.HasUnit {
		const text = "there is no unit file of %s: " +
			"a process of it that still runs is below mcpscope until it ends"
		g.stdio.Note(fmt.Sprintf(text, g.unit))
	}
	status = max(status, g.call.takeSteps(removal.Steps()...))
	if !g.call.now || status != cli.ExitOK || !removal.HasUnit {
		return status
	}
	return g.finishRemoval(removal)
}

// finishRemoval comes after the steps: the manager starts the gateway without mcpscope then, or that fails.
func (g *gatewayCall) finishRemoval(removal units.DropInRemoval) int {
	if err := removal.CheckInForce(); err != nil {
		return g.stdio.Cannot("take "+g.unit+" out of mcpscope", err)
	}
	return cli.ExitOK
}
