// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/gateway"
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
	name, err := units.ParseServiceName(g.unit)
	if err != nil {
		return g.stdio.Cannot(g.call.goal(), err)
	}
	if g.call.remove {
		removal, err := units.PlanDropInRemoval(name, g.dir)
		if err != nil {
			return g.stdio.Cannot(g.call.goal(), err)
		}
		return g.removeDropIn(removal)
	}
	dropIn, err := g.planDropIn(name)
	switch {
	case err != nil:
		return g.stdio.Cannot(g.call.goal(), err)
	case g.call.install:
		return g.installDropIn(dropIn)
	}
	return g.printDropIn(dropIn)
}

func (g *gatewayCall) planDropIn(name units.ServiceName) (units.DropIn, error) {
	service, err := units.FindGateway(name, g.dir, g.call.now)
	if err != nil {
		return units.DropIn{}, err
	}
	flags, err := service.Flags(g.call.gatewayFlags)
	if err != nil {
		return units.DropIn{}, err
	}
	return service.DropIn(units.InstalledPrograms(), flags), nil
}

// printDropIn prints nothing but the file, which a person may put into place.
func (g *gatewayCall) printDropIn(d units.DropIn) int {
	fmt.Fprint(g.stdio.Out, d.File.Sealed())
	g.stdio.Note("this is " + d.Path())
	return cli.ExitOK
}

func (g *gatewayCall) installDropIn(d units.DropIn) int {
	result, err := d.Install()
	if err != nil {
		return g.stdio.Cannot("install "+d.Path(), err)
	}
	g.call.printResult(result, d.Path())
	g.printAbout(d)
	switch {
	case g.call.now:
		return g.putInForce(d, result)
	case result == units.Unchanged && !d.IsPending():
		return cli.ExitOK
	}
	return g.call.takeSteps(d.RemainingSteps()...)
}

// printAbout prints facts about an installed drop-in.
func (g *gatewayCall) printAbout(d units.DropIn) {
	about := func(line string) { fmt.Fprintln(g.stdio.Out, cli.OneLine(line)) }
	if d.Flags.Kept {
		about("kept: " + units.PrintFlags(d.Flags.Words))
	} else if len(d.Flags.Words) > 0 {
		about("flags: " + units.PrintFlags(d.Flags.Words))
	}
	if len(d.Dropped) > 0 {
		about("dropped: " + units.PrintFlags(d.Dropped))
	}
	if d.GroupNote != "" {
		about(d.GroupNote)
	}
	if d.LogCommand != "" {
		about("log: " + d.LogCommand)
	}
}

// putInForce has the manager read an installed drop-in, and start the gateway by it.
func (g *gatewayCall) putInForce(d units.DropIn, result units.Result) int {
	if status := g.call.takeSteps(units.ReloadStep()); status != cli.ExitOK {
		return status
	}
	if err := d.CheckInForce(); err != nil {
		return g.stdio.Cannot("put "+d.Path()+" in force", err)
	}
	reason, next := d.Gateway.WhyNotStarted()
	if reason != "" {
		g.stdio.Note(reason)
		g.stdio.Hint(next)
		return cli.ExitOK
	}
	return g.restart(d, result)
}

// restart starts a gateway by its drop-in. It succeeds only if the servers of the gateway can be contained. A
// gateway that does not run runs as before again.
func (g *gatewayCall) restart(d units.DropIn, result units.Result) int {
	step := d.Gateway.RestartStep()
	if err := step.Run(); err != nil {
		return g.rollBack(d, result, err)
	}
	fmt.Fprintf(g.stdio.Out, "done: %s\n", step.Command)
	trial, err := d.Gateway.Try(countServers)
	if err != nil {
		return g.rollBack(d, result, err)
	}
	if status := g.printContainment(trial.Containment); status != cli.ExitOK {
		return status
	}
	fmt.Fprintf(g.stdio.Out, "%s runs: %s\n", cli.OneLine(g.unit), serversText(trial.Servers))
	for _, line := range containment.LinesOf(proc.Take(), selection.Whose(os.Getuid() == 0), trial.MainPID) {
		g.stdio.Note(line)
	}
	return cli.ExitOK
}

// rollBack makes a service that does not run below mcpscope run as before, if it ran before.
func (g *gatewayCall) rollBack(d units.DropIn, installed units.Result, reason error) int {
	result, err := d.RollBack(installed)
	if result == "" {
		reason = d.Gateway.WithUndo(reason)
	}
	status := g.stdio.Cannot(g.call.goal(), reason)
	if result != "" {
		g.call.printResult(result, d.Path())
	}
	switch {
	case err != nil:
		return g.stdio.Cannot("run "+g.unit+" as before", err)
	case result != "":
		g.stdio.Note(cli.OneLine(g.unit) + " runs as before")
	}
	return status
}

// countServers counts the servers of a gateway, as far as they can be listed. Its unit does not show them:
// PAM may have moved it into a session.
func countServers(pid int) (count int) {
	users := selection.Whose(os.Getuid() == 0) // the service can have User=
	servers, _ := fleet.List(users)
	defer selection.Close(servers)
	for _, g := range gateway.List(proc.Take(), users) {
		for _, s := range servers {
			isServer := s.Kept == nil && g.PID == pid && g.IsClient(s.ClientProcess())
			if isServer {
				count++
			}
		}
	}
	return count
}

// serversText has the number of servers of a gateway that was just started. Many gateways start a server
// only when a client needs it.
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
func (g *gatewayCall) printContainment(c units.Containment) int {
	switch c.State {
	case containment.Undecided:
		goal := "see whether the servers of " + g.unit + " are contained"
		return g.stdio.Cannot(goal, remedy.With(errors.New(c.Reason), c.Remedy))
	case containment.Uncontained:
		reason := cli.ErrorText(c.Reason)
		fmt.Fprintf(g.stdio.Err, "mcpscope: the servers of %s are NOT contained: %s\n", g.unit, reason)
		g.stdio.Hint(c.Remedy)
		return cli.ExitFailure
	case containment.Weaker:
		const text = "the servers of %s are contained without cgroups, which is weaker: %s"
		g.stdio.Note(fmt.Sprintf(text, g.unit, cli.ErrorText(c.Reason)))
		g.stdio.Hint(c.Remedy)
	}
	return cli.ExitOK
}

// removeDropIn removes the drop-in, also that for another name of the service.
func (g *gatewayCall) removeDropIn(removal units.DropInRemoval) int {
	results := removal.Remove()
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
	if err := removal.CheckInForce(); err != nil {
		return g.stdio.Cannot("take "+g.unit+" out of mcpscope", err)
	}
	return cli.ExitOK
}
