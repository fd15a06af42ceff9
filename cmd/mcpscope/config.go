//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/mcpscope/mcpscope/config"
)

const configUsage = `Usage: mcpscope config show NAME [--json]
       mcpscope config check [FILE…]

Settings of run may be in mcpscope.toml, so that clients need no flags:

  [defaults]
  require = true

  [server."git*"]
  term-grace = "5s"

Keys are run's flags without their dashes; quiet and verbose are -q and -v. Read are

  /etc/mcpscope/mcpscope.toml
  $XDG_CONFIG_HOME/mcpscope/mcpscope.toml, or ~/.config/mcpscope/mcpscope.toml
  the file that MCPSCOPE_CONFIG names

of which a later one counts more; variables count more than files, and flags most.

show prints what a server of that name would get, flags aside, and from where. check says what is
wrong with these files, or with FILE; its exit status is 1 if anything is.
`

// configVersion is that of the JSON, in which fields are only ever added.
const configVersion = 1

func configCommand(args []string, io stdio) int {
	var asJSON bool
	fs := newFlags("config")
	fs.BoolVar(&asJSON, "json", false, "")
	operands, done, status := parseArgs(fs, args, configUsage, io)
	switch {
	case done:
		return status
	case len(operands) == 2 && operands[0] == "show":
		return configShow(operands[1], asJSON, io)
	case len(operands) == 1 && operands[0] == "show":
		return mistake(io, "config", "show: which server? Give a name")
	case len(operands) > 0 && operands[0] == "check" && !asJSON:
		return configCheck(operands[1:], io)
	case len(operands) == 0:
		return mistake(io, "config", "show or check?")
	}
	return mistake(io, "config", fmt.Sprintf("unexpected arguments %q", operands))
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

// configProblem is a config.Problem in JSON.
type configProblem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func configShow(server string, asJSON bool, io stdio) int {
	var f runFlags
	fs := f.set()
	if err := fromEnvironment(fs); err != nil {
		return cannot(io, "show the configuration", err)
	}
	c := readConfig()
	all := effective(fs, c.For(server))
	if asJSON {
		problems := []configProblem{}
		for _, p := range c.Problems {
			problems = append(problems, configProblem(p))
		}
		return showJSON(io, struct {
			Version  int             `json:"version"`
			Name     string          `json:"name"`
			Files    []string        `json:"files"` // that were read
			Settings []setting       `json:"settings"`
			Problems []configProblem `json:"problems"`
		}{configVersion, server, append([]string{}, c.Files...), all, problems})
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Key, oneLine(firstOf(s.Value, "-")), oneLine(s.origin()))
	}
	if err := w.Flush(); err != nil {
		return cannot(io, "print", err)
	}
	for _, p := range c.Problems {
		fmt.Fprintf(io.err, "mcpscope: note: %s\n", errorLine(p))
	}
	return exitOK
}

func showJSON(io stdio, what any) int {
	if err := printJSON(io.out, what, "  "); err != nil {
		return cannot(io, "print", err)
	}
	return exitOK
}

// effective are all settings, by key. The variables are in fs already.
func effective(fs *flag.FlagSet, settings map[string]config.Value) []setting {
	set := map[string]bool{}
	fs.Visit(func(fl *flag.Flag) { set[fl.Name] = true })
	flags := map[string]string{}
	for flag, key := range settingKeys() {
		flags[key] = flag
	}
	var all []setting
	for _, key := range sortedKeys(flags) {
		flag := flags[key]
		s := setting{Key: key, Value: firstOf(defaultText(flag), fs.Lookup(flag).DefValue), From: "default"}
		v, some := settings[key]
		switch {
		case set[flag]:
			s.From, s.Name, s.Value = "variable", variables[flag], os.Getenv(variables[flag])
			if fl := fs.Lookup(flag); isBool(fl) {
				s.Value = fl.Value.String() // not 1
			}
		case some:
			s.From, s.Value, s.File, s.Line, s.Section = "file", v.Text, v.File, v.Line, v.Section
		}
		all = append(all, s)
	}
	return all
}

// configCheck prints what there is to correct as editors read it.
func configCheck(files []string, io stdio) int {
	places := config.Places(os.Getenv)
	if len(files) > 0 {
		places = nil
	}
	for _, f := range files {
		places = append(places, config.Place{Path: f, Asked: true, Trusted: true})
	}
	c := config.Read(places, configKeys)
	for _, p := range c.Problems {
		fmt.Fprintln(io.out, errorLine(p))
	}
	if len(c.Problems) > 0 {
		return exitFailure
	}
	return exitOK
}
