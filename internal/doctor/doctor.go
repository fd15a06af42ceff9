// SPDX-License-Identifier: Apache-2.0

// Package doctor says what mcpscope can do for servers here, what is missing, and what to do about it.
//
// Examine reads, and changes nothing. Only Selftest starts servers. The package prints nothing: a diagnosis
// has its text.
package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/containment"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/leaks"
	"github.com/mcpscope/mcpscope/internal/logs"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// Diagnosis is the result of doctor, in JSON too; fields are only added.
type Diagnosis struct {
	Version  int            `json:"version"`
	Mcpscope string         `json:"mcpscope"`
	UID      int            `json:"uid"`
	Backend  names.Backend  `json:"backend"` // of run, or ""
	Group    bool           `json:"group"`   // each server has its own control group
	Host     host.Host      `json:"host"`
	Gateways []string       `json:"gateways,omitempty"` // that run
	Problems []host.Problem `json:"problems,omitempty"`
	Selftest []TestCase     `json:"selftest,omitempty"`
}

// New makes the diagnosis of a host.
func New(h host.Host) *Diagnosis {
	best, _ := h.Best()
	return &Diagnosis{
		Version: 1, Mcpscope: programs.Version(), UID: os.Getuid(),
		Backend: best.Name, Group: best.HasGroup(),
		Host: h, Problems: h.Problems(),
	}
}

// Examine looks at the host, and at the programs and files that have to do with servers: as root those of all
// users.
func Examine() *Diagnosis {
	d := New(host.Look())
	t := proc.Take()
	files := settings.ReadFiles()
	search := clientconfig.NewSearch()
	configured, _ := search.Everywhere() // no file, without a directory to look in
	d.addGateways(t)
	d.addServices()
	for _, p := range files.Problems { // in the format of editors: FILE:LINE: TEXT
		d.add(host.Problem{Capability: host.Settings, What: cli.ErrorLine(p)})
	}
	d.addMinor(host.Settings, UnmatchedSections(files, search)...)
	d.addLimits(slices.Concat(files.Limits(), configured.Limits()))
	coverage := configured.Coverage()
	d.addMinor(host.Clients, coverage.Lines(containment.ClientsInside(t))...)
	d.addMinor(host.Clients, configured.UnreadLines()...)
	d.addAgents(t)
	d.addMinor(host.Settings, logs.UsedLines(selection.Whose(d.UID == 0))...)
	count, _ := leaks.CountBy(selection.Whose(d.UID == 0), search) // sweep prints the error
	d.addLeaks(count)
	return d
}

func (d *Diagnosis) add(p host.Problem) { d.Problems = append(d.Problems, p) }

// addMinor adds what a person may want to know, and which breaks nothing.
func (d *Diagnosis) addMinor(about host.Capability, lines ...string) {
	for _, line := range lines {
		d.add(host.Problem{Capability: about, What: line, Minor: true})
	}
}

// addServices adds the services and gateways whose servers are not contained, or whose command has changed
// since their drop-in was written.
func (d *Diagnosis) addServices() {
	uncontained := units.UncontainedGateways()
	for _, g := range uncontained {
		d.add(uncontainedProblem(g))
	}
	dir, err := units.Dir()
	if err != nil { // there are no services
		return
	}
	for _, unit := range units.Gateways(dir) {
		isIt := func(g units.UncontainedGateway) bool { return g.Unit == unit }
		isKnown := slices.ContainsFunc(uncontained, isIt)
		hasChanged, err := units.HasChanged(unit)
		if isKnown || err != nil || !hasChanged { // without a manager no command runs
			continue
		}
		name := serviceName(unit)
		d.add(host.Problem{
			Capability: host.Gateways,
			What:       name + ": its command has changed since its drop-in was written",
			Fix:        "mcpscope units --unit " + cli.Word(name) + " --install --now",
		})
	}
}

func uncontainedProblem(g units.UncontainedGateway) host.Problem {
	how := "NOT contained"
	if g.State == containment.Weaker {
		how = "contained without cgroups, which is weaker"
	}
	return host.Problem{
		Capability: host.Gateways, What: serviceName(g.Unit) + ": its servers are " + how,
		Why: g.Reason, Fix: g.Remedy,
	}
}

// serviceName returns the name of a service as people type it.
func serviceName(unit string) string { return strings.TrimSuffix(unit, ".service") }

// addLimits adds those that lack their controller: with one of them mcpscope run starts nothing.
func (d *Diagnosis) addLimits(limits []settings.PlacedLimit) {
	best, ok := d.Host.Best()
	if !ok {
		return
	}
	for _, limit := range limits {
		if limit.IsApplicable(best.Controllers) {
			continue
		}
		controller, _, _ := strings.Cut(limit.File, ".")
		const why = "%s has no controller %s, so mcpscope run starts nothing; below a gateway servers " +
			"start without it"
		d.add(host.Problem{
			Capability: host.Controllers,
			What:       fmt.Sprintf("%s: %s cannot be applied", limit.Place, limit),
			Why:        fmt.Sprintf(why, best.Name, controller),
		})
	}
}

func (d *Diagnosis) addLeaks(count int) {
	if count == 0 {
		return
	}
	command := "mcpscope sweep"
	if d.UID == 0 {
		command += " --all-users"
	}
	d.add(host.Problem{
		Capability: host.Leaks, What: cli.Counted(count, "leaked server"), Fix: command, Minor: true,
	})
}

// IsHealthy reports whether nothing has to be repaired: servers get their own control group with their
// limits, gateways contain their servers, settings have no mistake, and the selftest has passed.
func (d *Diagnosis) IsHealthy() bool {
	isSevere := func(p host.Problem) bool { return !p.Minor }
	hasFailed := func(c TestCase) bool { return !c.Passed }
	return !slices.ContainsFunc(d.Problems, isSevere) && !slices.ContainsFunc(d.Selftest, hasFailed)
}
