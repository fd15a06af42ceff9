// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// configVersion is that of the JSON, in which fields are only ever added.
const configVersion = 1

func configCommand(io cli.Stdio) *cobra.Command {
	var asJSON bool
	c := command(spec{
		use: "config show NAME | config check [FILE…]", short: "show and check mcpscope.toml", operands: configOperands,
		examples: `  mcpscope config show git
  mcpscope config check
`,
		long: `Settings of run and gateway may be in mcpscope.toml, so that clients need no flags:

  [defaults]
  require = true

  [server."git*"]
  term-grace = "5s"

Keys are run's flags without their dashes. Read are

  /etc/mcpscope/mcpscope.toml
  $XDG_CONFIG_HOME/mcpscope/mcpscope.toml, or ~/.config/mcpscope/mcpscope.toml
  the file that MCPSCOPE_CONFIG names

of which a later one counts more; variables count more than files, and flags most.

show prints what a server of that name would get, flags aside, and from where. check
says what is wrong with these files, or with FILE; its exit status is 1 if anything
is.`,
	}, func(operands []string) int { return configRun(operands, asJSON, io) })
	c.Flags().BoolVar(&asJSON, "json", false, "show: one object")
	return c
}

func configRun(operands []string, asJSON bool, io cli.Stdio) int {
	switch {
	case len(operands) == 2 && operands[0] == "show":
		return configShow(operands[1], asJSON, io)
	case len(operands) == 1 && operands[0] == "show":
		return io.Mistake("config", "show: which server? Give a name")
	case len(operands) > 0 && operands[0] == "check" && !asJSON:
		return configCheck(operands[1:], io)
	case len(operands) == 0:
		return io.Mistake("config", "show or check?")
	}
	return io.Mistake("config", fmt.Sprintf("unexpected arguments %q", operands))
}

// setting is an effective one, and where it comes from.
type setting struct {
	Key     string `json:"key"`
	Value   string `json:"value"` // as a file would have it
	From    string `json:"from"`  // default, file or variable
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Section string `json:"section,omitempty"`
	Name    string `json:"variable,omitempty"`
}

func (s setting) origin() string {
	switch s.From {
	case "file":
		return fmt.Sprintf("%s:%d %s", s.File, s.Line, s.Section)
	case "variable":
		return s.Name
	}
	return s.From
}

func configShow(server string, asJSON bool, io cli.Stdio) int {
	v := settings.Defaults()
	if err := v.FromEnvironment(settings.Run); err != nil {
		return io.Cannot("show the configuration", err)
	}
	c := settings.ReadFiles()
	all := effective(v, c.For(server))
	if asJSON {
		return showJSON(io, "print", struct {
			Version  int                    `json:"version"`
			Name     string                 `json:"name"`
			Files    []string               `json:"files"` // that were read
			Settings []setting              `json:"settings"`
			Problems []settings.FileProblem `json:"problems"`
		}{configVersion, server, append([]string{}, c.Files...), all, append([]settings.FileProblem{}, c.Problems...)})
	}
	w := tabwriter.NewWriter(io.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, cli.OneLine(cmp.Or(s.Value, "-")), cli.OneLine(s.origin()))
	}
	if err := w.Flush(); err != nil {
		return io.Cannot("print", err)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(io.Err, "mcpscope: note: %s\n", cli.ErrorLine(p))
	}
	return cli.ExitOK
}

// effective are all settings, by key. The variables are in v already.
func effective(v *settings.Values, of map[string]settings.FileValue) []setting {
	var all []setting
	for _, r := range settings.Rows(settings.Run) {
		if r.Where&settings.File == 0 {
			continue
		}
		s := setting{Key: r.Name, Value: r.Default, From: "default"}
		if r.Switch() {
			s.Value = cmp.Or(r.Default, "false")
		}
		given, some := of[r.Name]
		switch {
		case v.Given(r.Name):
			s.From, s.Name, s.Value = "variable", r.Variable(), os.Getenv(r.Variable())
			if on, err := strconv.ParseBool(s.Value); r.Switch() && err == nil {
				s.Value = strconv.FormatBool(on) // not 1
			}
		case some:
			s.From, s.Value, s.File, s.Line, s.Section = "file", given.Text, given.File, given.Line, given.Section
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b setting) int { return strings.Compare(a.Key, b.Key) })
	return all
}

// configCheck prints what there is to correct as editors read it.
func configCheck(files []string, io cli.Stdio) int {
	places := settings.FilePlaces(os.Getenv)
	if len(files) > 0 {
		places = nil
	}
	for _, f := range files {
		places = append(places, settings.FilePlace{Path: f, Asked: true, Trusted: true})
	}
	c := settings.ParseFiles(places)
	for _, p := range c.Problems {
		fmt.Fprintln(io.Out, cli.ErrorLine(p))
	}
	if len(c.Problems) > 0 {
		return cli.ExitFailure
	}
	return cli.ExitOK
}
