// SPDX-License-Identifier: Apache-2.0

// Package diagnose checks a host for doctor: it runs each backend with the command that clients use, and
// changes nothing.
package diagnose

import (
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/containment"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/selection"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/internal/units"
)

// diagnosis is the result of doctor, in JSON too; fields are only added.
type diagnosis struct {
	Version     int                        `json:"version"`
	Mcpscope    string                     `json:"mcpscope"`
	UID         int                        `json:"uid"`
	Backend     protocol.Backend           `json:"backend"`  // of run, or ""
	Group       bool                       `json:"group"`    // the server has its own control group
	Backends    []Trial                    `json:"backends"` // in the order of auto
	Host        host                       `json:"host"`
	Advice      []advice                   `json:"advice,omitempty"`
	Gateways    []string                   `json:"gateways,omitempty"` // running gateways
	Uncontained []units.UncontainedGateway `json:"uncontained,omitempty"`
	Changed     []changedGateway           `json:"changed,omitempty"`    // services with an outdated drop-in
	Configured  []string                   `json:"configured,omitempty"` // without mcpscope
	Agents      []Agent                    `json:"agents,omitempty"`     // without mcpscope
	Leaks       int                        `json:"leaks,omitempty"`      // leaked servers
	Settings    []string                   `json:"settings,omitempty"`   // mistakes in settings files
	Limits      []string                   `json:"limits,omitempty"`     // that cannot be applied
	Selftest    []testCase                 `json:"selftest,omitempty"`

	limitsMayFail bool // limits = "best-effort"
	withCgo       bool // the runner was built with it
}

func Diagnose(by programs) *diagnosis {
	d := &diagnosis{
		Version: 1, Mcpscope: cli.Version(), UID: os.Getuid(), Host: readHost(), Gateways: gateways(),
		Uncontained: units.UncontainedGateways(),
		Changed:     changedGateways(),
		Configured:  clientconfig.FindCoverage().Lines(),
		Agents:      agentsOutside(),
		withCgo:     builtWithCgo(by.runner),
		Settings:    settingsProblems(), Leaks: leftover.CountLeaks(os.Getuid()),
	}
	for _, b := range backend.Candidates() {
		t := tryBackend(by, b)
		if t.Works && d.Backend == "" {
			d.Backend, d.Group = b, t.Group
			t.Remedy = d.giveControllers(t)
		}
		d.Backends = append(d.Backends, t)
	}
	d.readLimits()
	d.Changed = slices.DeleteFunc(d.Changed, func(g changedGateway) bool { // its remedy is there already
		sameUnit := func(u units.UncontainedGateway) bool { return u.Unit == g.Unit }
		return slices.ContainsFunc(d.Uncontained, sameUnit)
	})
	d.Advice = d.advise()
	return d
}

func (d *diagnosis) Status() int {
	failed := func(c testCase) bool { return !c.Passed }
	if len(d.Limits) > 0 && !d.limitsMayFail {
		return cli.ExitFailure
	}
	if len(d.Uncontained) > 0 || len(d.Changed) > 0 {
		return cli.ExitFailure
	}
	if !d.Group || len(d.Settings) > 0 || slices.ContainsFunc(d.Selftest, failed) {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// settingsProblems lists mistakes in mcpscope.toml in the format of editors: FILE:LINE: TEXT.
func settingsProblems() (lines []string) {
	for _, p := range settings.ReadFiles().Problems {
		lines = append(lines, cli.ErrorLine(p))
	}
	return lines
}

// gateways lists the programs that mcpscope gateway runs, with the number of their servers.
func gateways() (lines []string) {
	uid := selection.Whose(os.Getuid() == 0) // root sees those of all users
	servers, _ := fleet.List(uid)            // none
	defer selection.Close(servers)
	for _, g := range gw.List(uid) {
		count := 0
		for _, s := range servers {
			if g.Starts(s.Client.PID) {
				count++
			}
		}
		line := fmt.Sprintf("%s[%d]: %s", g.Name, g.PID, cli.Counted(count, "server"))
		if g.HasEnded() {
			line += "; it has ended, and a daemon or session of it goes on"
		} else if count == 0 {
			line += "; see --explain PATH and --match GLOB"
		}
		lines = append(lines, line)
	}
	daemons := containment.DaemonLines(servers)
	if len(lines) > 0 && os.Getuid() != 0 {
		lines = append(lines, "sudo and other setuid programs do not work below a gateway of a user "+
			"(no_new_privs); where they are needed, wrap the servers instead: mcpscope wrap")
	}
	return slices.Concat(lines, containment.Lines(uid), daemons)
}
