//go:build linux

package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/config"
	"github.com/mcpscope/mcpscope/scope"
)

// maxConfigNotes fit into a report; `config check` has them all.
const maxConfigNotes = 5

// settingKeys maps each flag that a file may set to its key there, which is its variable's
// name in small letters. A name is no setting: by it settings are found.
func settingKeys() map[string]string {
	keys := map[string]string{}
	for flag, variable := range variables {
		if flag != "name" {
			keys[flag] = strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(variable, "MCPSCOPE_")), "_", "-")
		}
	}
	return keys
}

// configKeys are checked by the flags themselves.
func configKeys() config.Keys {
	var f runFlags
	fs := f.set()
	all := config.Keys{}
	for flag, key := range settingKeys() {
		all[key] = config.Key{Bool: isBool(fs.Lookup(flag)), Check: func(s string) error { return fs.Set(flag, s) }}
	}
	return all
}

func isBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// defaultText is what a file would have to say for what run does without one; "" is nothing.
func defaultText(flag string) string {
	p := scope.DefaultPolicy()
	switch flag {
	case "backend":
		return string(scope.Auto)
	case "slice":
		return scope.DefaultSlice
	case "stderr":
		return string(scope.StderrInherit)
	case "eof-grace":
		return p.EOFGrace.String()
	case "term-grace":
		return p.TermGrace.String()
	case "on-client-death":
		return string(p.OnClientDeath)
	case "max-lifetime", "idle-timeout", "memory-max", "memory-high", "swap-max", "cpu-max", "pids-max":
		return "infinity"
	case "cpu-weight", "io-weight":
		return "100"
	case "limits":
		return limitsStrict
	}
	return ""
}

func readConfig() *config.Config { return config.Read(config.Places(os.Getenv), configKeys) }

// take fills in what neither a flag nor a variable has set.
func (f *runFlags) take(settings map[string]config.Value) {
	if len(settings) == 0 {
		return
	}
	f.from = map[string]config.Value{}
	set := map[string]bool{}
	f.given.Visit(func(fl *flag.Flag) { set[fl.Name] = true })
	for flag, key := range settingKeys() {
		if v, some := settings[key]; some && !set[flag] {
			_ = f.given.Set(flag, v.Text) // it was checked when it was read
			f.from[flag] = v
		}
	}
}

// configure reads the files. What is wrong with them is a note, unless it has to be right.
func (v *invocation) configure() int {
	c := readConfig()
	v.flags.take(c.For(v.flags.name))
	v.quiet, v.verbose = v.flags.quiet, v.flags.verbose
	if len(c.Problems) > 0 && v.flags.strict {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot use the configuration: %v", c.Problems[0]), "mcpscope config check")
	}
	for i, p := range c.Problems {
		if i == maxConfigNotes {
			v.notes = append(v.notes, fmt.Sprintf("configuration: %d more: mcpscope config check", len(c.Problems)-i))
			break
		}
		v.note(p)
	}
	return exitOK
}

func (v *invocation) note(p config.Problem) {
	v.notes = append(v.notes, fit("configuration: "+errorLine(p), 500))
}

// openReport: one that a file asks for and that can't be had is a mistake in the file, which
// must not keep the server from starting.
func (v *invocation) openReport() (int, error) {
	report, err := openReport(v.flags.report)
	if from, ours := v.flags.from["report"]; err != nil && ours && !v.flags.strict {
		v.note(config.Problem{File: from.File, Line: from.Line, Text: "cannot open the report: " + err.Error()})
		return -1, nil
	}
	return report, err
}
