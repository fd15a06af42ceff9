// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package settings has one table of everything that `run` and `gateway` can be told: flag,
// environment variable, key of mcpscope.toml, kernel file, parser, default, completion and help.
// Whatever else there is about a setting is made from its row.
//
// A flag counts more than its variable, and that more than a file. The package is linked into the
// runner: it imports nothing that the runner does not need.
package settings

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Command is one of the commands that take settings.
type Command uint8

// The commands; a row is for one of them or for both.
const (
	Run Command = 1 << iota
	Gateway
)

func (c Command) String() string {
	if c == Gateway {
		return "gateway"
	}
	return "run"
}

// Row is one setting.
type Row struct {
	// Name is that of the flag, without dashes, and of the key in a file.
	Name string
	// Short is a flag of one letter that means the same, or "".
	Short string
	// For are the commands that take it.
	For Command
	// Where is where it can be set, beside by its flag.
	Where Where
	// Arg stands for its value in help texts; "" for what is on or off.
	Arg string
	// Default is what a file would say for what happens without it; "" for nothing.
	Default string
	// Values are what can be completed; they need not be all that is taken.
	Values []string
	// Paths says that it takes names of files.
	Paths bool
	// Help explains it.
	Help string
	// parse reads a value into Values. That of what is on or off is "true" or "false".
	parse func(v *Values, text string) error
}

// Where is a set of places beside the command line.
type Where uint8

// The places.
const (
	Variable Where = 1 << iota
	File
	Everywhere = Variable | File
)

// Switch tells whether it is on or off, and takes no value.
func (r *Row) Switch() bool { return r.Arg == "" }

// Variable is its environment variable, "" if it has none.
func (r *Row) Variable() string {
	if r.Where&Variable == 0 {
		return ""
	}
	return "MCPSCOPE_" + strings.ReplaceAll(strings.ToUpper(r.Name), "-", "_")
}

// set reads a value as people write it.
func (r *Row) set(v *Values, text string) error {
	if r.Switch() {
		on, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		text = strconv.FormatBool(on)
	}
	return r.parse(v, text)
}

// Rows are the settings of a command, in the order of its help.
func Rows(of Command) []*Row {
	var all []*Row
	for i := range table {
		if table[i].For&of != 0 {
			all = append(all, &table[i])
		}
	}
	return all
}

// find returns nil for an unknown flag.
func find(of Command, name string) *Row {
	for i := range table {
		if r := &table[i]; r.For&of != 0 && (r.Name == name || r.Short != "" && r.Short == name) {
			return r
		}
	}
	return nil
}

// Values is what a command was told, with defaults for the rest.
type Values struct {
	Name      string
	Backend   protocol.Backend
	Require   bool
	Replace   bool
	Slice     string
	Policy    protocol.Policy
	Limits    cgroup.Limits
	Stderr    protocol.Stderr
	Report    string
	NoBrowser bool
	Quiet     bool
	Verbose   bool

	// Of a gateway.
	Configs, Match, Except []string
	Explain                string

	// From are the values that a file gave, by name.
	From map[string]FileValue
	// given are the settings that a flag or a variable gave.
	given map[string]bool
}

// Defaults are the values without any setting.
func Defaults() *Values {
	return &Values{
		Backend: protocol.Auto, Slice: protocol.DefaultSlice, Policy: protocol.DefaultPolicy(),
		Stderr: protocol.StderrInherit, given: map[string]bool{},
	}
}

// Parse takes the environment, and then the command line. help says that it asks for help.
func (v *Values) Parse(of Command, args []string) (operands []string, help bool, err error) {
	if err := v.FromEnvironment(of); err != nil {
		return nil, false, err
	}
	return v.FromArguments(of, args)
}

// FromEnvironment takes the variables; an empty one is none.
func (v *Values) FromEnvironment(of Command) error {
	for i := range table {
		r := &table[i]
		variable := r.Variable()
		if r.For&of == 0 || variable == "" {
			continue
		}
		if text := os.Getenv(variable); text != "" {
			if err := r.set(v, text); err != nil {
				return fmt.Errorf("%s: %w", variable, err)
			}
			v.given[r.Name] = true
		}
	}
	return nil
}

// FromArguments takes flags up to the first argument that is none, or to "--". The rest are the
// operands. --flag VALUE and --flag=VALUE are the same; a single dash will do.
func (v *Values) FromArguments(of Command, args []string) (operands []string, help bool, err error) {
	for len(args) > 0 {
		arg := args[0]
		if len(arg) < 2 || arg[0] != '-' {
			break
		}
		args = args[1:]
		if arg == "--" {
			break
		}
		text := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
		name, value, assigned := strings.Cut(text, "=")
		r := find(of, name)
		switch {
		case r == nil && (name == "h" || name == "help"):
			return nil, true, nil
		case r == nil:
			return nil, false, fmt.Errorf("unknown flag %q", Dashes(name))
		case !assigned && r.Switch():
			value = "true"
		case !assigned && len(args) == 0:
			return nil, false, fmt.Errorf("flag %s needs a value", Dashes(name))
		case !assigned:
			value, args = args[0], args[1:]
		}
		if err := r.set(v, value); err != nil {
			return nil, false, fmt.Errorf("%s %q: %w", Dashes(name), value, err)
		}
		v.given[r.Name] = true
	}
	return args, false, nil
}

// Dashes spells a flag as people write it.
func Dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// ReadFiles reads the configuration files of this user.
func ReadFiles() *FileSettings { return ParseFiles(FilePlaces(os.Getenv)) }

// FromFile takes what neither a flag nor a variable gave.
func (v *Values) FromFile(of map[string]FileValue) {
	given := slices.Clone(v.Limits.Files) // of which the key set may have another value
	for i := range table {
		r := &table[i]
		text, some := of[r.Name]
		if !some || v.given[r.Name] {
			continue
		}
		_ = r.set(v, text.Text) // it was checked when it was read
		if v.From == nil {
			v.From = map[string]FileValue{}
		}
		v.From[r.Name] = text
	}
	for _, limit := range given {
		v.Limits.Put(limit)
	}
}

// Given tells whether a flag or a variable gave it.
func (v *Values) Given(name string) bool { return v.given[name] }

// ServerEnvironment is the client's environment, to the byte and in its order, without what was
// meant for us. MCPSCOPE_ID is added later: it would be that of a server around this one.
func ServerEnvironment() []string {
	env, err := proc.Environ()
	if err != nil {
		env = os.Environ() // without duplicates; and without /proc nothing works anyway
	}
	return slices.DeleteFunc(env, func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(key, "MCPSCOPE_") {
			return false
		}
		if key == "MCPSCOPE_ID" || key == FileVariable {
			return true
		}
		return slices.ContainsFunc(table[:], func(r Row) bool { return r.Variable() == key })
	})
}
