// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package diagnose examines a host for doctor: it tries each backend by the command that clients use, and changes
// nothing.
package diagnose

import (
	"fmt"
	"os"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/hostinfo"
	"github.com/mcpscope/mcpscope/internal/leftover"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/fleet"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// diagnosis is all that doctor finds. Its JSON has a version, and fields are only
// ever added.
type diagnosis struct {
	Version  int              `json:"version"`
	Mcpscope string           `json:"mcpscope"`
	Runner   string           `json:"runner,omitempty"` // the version of mcpscope, Mcpscope being that of mcpscopectl
	UID      int              `json:"uid"`
	Backend  protocol.Backend `json:"backend"` // that run takes, "" if there is none
	Group    bool             `json:"group"`   // it is a control group of the server's own
	// Backends are what auto tries, in that order.
	Backends []Trial       `json:"backends"`
	Host     hostinfo.Host `json:"host"`
	Advice   []advice      `json:"advice,omitempty"`
	Gateways []string      `json:"gateways,omitempty"` // that run, and what they left alone
	Leaks    int           `json:"leaks,omitempty"`    // what clients have left before, see leaks
	Settings []string      `json:"settings,omitempty"` // what is wrong with the files of settings
	Selftest []testCase    `json:"selftest,omitempty"`
}

// Diagnose tries the backends while managers that may not answer are being asked.
func Diagnose(by programs) *diagnosis {
	d := &diagnosis{Version: 1, Mcpscope: OwnVersion(), UID: os.Getuid()}
	surveyed := make(chan hostinfo.Host, 1)
	go func() { surveyed <- hostinfo.Read() }()
	d.Runner, _, _ = RunnerVersion() // why it can't be run, the trials say
	for _, b := range backend.Candidates() {
		t := tryBackend(by, b)
		if t.Works && d.Backend == "" {
			d.Backend, d.Group = b, t.Group
		}
		d.Backends = append(d.Backends, t)
	}
	d.Host = <-surveyed
	d.Advice = d.advise()
	d.Gateways = gateways()
	d.Settings = settingsProblems()
	d.Leaks = leftover.CountLeaks(os.Getuid())
	return d
}

func (d *diagnosis) Status() int {
	failed := func(c testCase) bool { return !c.Passed }
	if !d.Group || len(d.Settings) > 0 || slices.ContainsFunc(d.Selftest, failed) {
		return cli.ExitFailure
	}
	return cli.ExitOK
}

// settingsProblems are mistakes in mcpscope.toml, as editors read them: FILE:LINE: TEXT.
func settingsProblems() (lines []string) {
	for _, p := range settings.ReadFiles().Problems {
		lines = append(lines, cli.ErrorLine(p))
	}
	return lines
}

// gateways are those that run below mcpscope gateway, with the number of their servers.
func gateways() (lines []string) {
	servers, _ := fleet.List(os.Getuid()) // none
	for _, g := range gw.List(os.Getuid()) {
		count := 0
		for _, s := range servers {
			if s.Client.PID == g.PID {
				count++
			}
		}
		line := fmt.Sprintf("%s[%d]: %s", g.Name, g.PID, cli.Counted(count, "server"))
		if count == 0 {
			line += "; --explain PATH says why programs were left, --match GLOB takes them"
		}
		lines = append(lines, line)
	}
	for _, s := range servers {
		s.Close()
	}
	return lines
}
