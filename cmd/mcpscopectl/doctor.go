// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/hostinfo"
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
	Backends []trial       `json:"backends"`
	Host     hostinfo.Host `json:"host"`
	Advice   []advice      `json:"advice,omitempty"`
	Gateways []string      `json:"gateways,omitempty"` // that run, and how many servers they have
	Leaks    int           `json:"leaks,omitempty"`    // what clients have left before, see leaks
	Settings []string      `json:"settings,omitempty"` // what is wrong with the files of settings
	Selftest []testCase    `json:"selftest,omitempty"`
}

type doctorFlags struct{ json, selftest bool }

func doctorCommand(io cli.Stdio) *cobra.Command {
	var f doctorFlags
	c := command(spec{
		use: "doctor [flags]", short: "say what this host offers, and what would be better",
		examples: `  mcpscope doctor
  mcpscope doctor --selftest
`,
		long: `Says what this host offers: which backend run takes, why each better one is not
available, and the command or drop-in that would make it so. It runs a short server
in each to find out, and leaves nothing behind. Run it as the user, and in the unit
or container, of the client. It also prints what is wrong with the files of settings
(mcpscope.toml), which gateways run, and how many servers are leaked.

The exit status is 0 if a server gets a control group of its own, 1 if it does not, if
a file of settings has a mistake or a process is left, and 125 if doctor itself failed.`,
	}, func([]string) int { return f.run(io) })
	c.Flags().BoolVar(&f.selftest, "selftest", false, "also start six servers that ignore SIGTERM, stop them in three ways, and see that no process is left")
	c.Flags().BoolVar(&f.json, "json", false, "one object")
	return c
}

func (f *doctorFlags) run(io cli.Stdio) int {
	status, err := f.examine(io.Out)
	if err != nil {
		fmt.Fprintf(io.Err, "mcpscope: cannot examine this host: %s\n", cli.OneLine(err.Error()))
		return cli.ExitOwnFailure
	}
	return status
}

// examine prints before the selftest, which takes seconds.
func (f *doctorFlags) examine(to io.Writer) (status int, err error) {
	by, err := findPrograms()
	if err != nil {
		return 0, err
	}
	d := diagnose(by)
	p := newPaper(to)
	if !f.json {
		d.print(p)
	}
	if f.selftest && d.Backend != "" {
		d.Selftest = selftest(by, d.Backend)
	}
	if f.json {
		p.err = printJSON(p.to, d, "  ")
	} else {
		d.printSelftest(p)
	}
	return d.status(), p.err
}

// diagnose tries the backends while managers that may not answer are being asked.
func diagnose(by programs) *diagnosis {
	d := &diagnosis{Version: 1, Mcpscope: ownVersion(), UID: os.Getuid()}
	surveyed := make(chan hostinfo.Host, 1)
	go func() { surveyed <- hostinfo.Read() }()
	d.Runner, _, _ = runnerVersion() // why it can't be run, the trials say
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
	d.Leaks = countLeaks(os.Getuid())
	return d
}

func (d *diagnosis) status() int {
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

// paper is where doctor writes, and remembers the first error.
type paper struct {
	to       io.Writer
	coloured bool
	err      error
}

func (p *paper) printf(format string, args ...any) {
	_, err := fmt.Fprintf(p.to, format, args...)
	if p.err == nil {
		p.err = err
	}
}

// gateways are those that run below mcpscope gateway, with the number of their servers.
func gateways() (lines []string) {
	servers, _ := fleet.List(os.Getuid()) // none
	defer closeAll(servers)
	for _, g := range gw.List(os.Getuid()) {
		count := 0
		for _, s := range servers {
			if s.Client.PID == g.PID {
				count++
			}
		}
		line := fmt.Sprintf("%s[%d]: %s", g.Name, g.PID, counted(count, "server"))
		if count == 0 {
			line += "; --explain PATH says why programs were left, --match GLOB takes them"
		}
		lines = append(lines, line)
	}
	return lines
}
