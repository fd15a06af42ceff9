// SPDX-License-Identifier: Apache-2.0

// Package settings has one table of all settings of `run` and `gateway`: flag, environment variable, key of
// mcpscope.toml, parser, default, completion and help.
//
// A flag overrides its variable, and a variable overrides a file. The runner links this package, so it
// imports nothing that the runner does not need.
package settings

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpscope/mcpscope/cgroup"
	"github.com/mcpscope/mcpscope/internal/flags"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Command is a set of commands that have settings.
type Command uint8

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
	Name    string // of the flag, without dashes, and of the key in a file
	Short   string // the same flag as one letter, or ""
	For     Command
	Where   Where
	Arg     string   // the value in help texts; "" for a switch
	Values  []string // for completion; parse may accept others
	Only    bool     // no others
	Paths   bool     // the value is the name of a file
	List    bool     // a file has a list of values, and there is no variable
	Whole   bool     // it is of a whole gateway: a file has it in [defaults] alone
	Client  bool     // a file may have it in [client.NAME], too, for all servers of that client
	Default string   // "" for none
	Help    string
	parse   func(v *Values, text string) error // text is "true" or "false" for a switch
}

// Where is a set of places beside the command line.
type Where uint8

const (
	Variable Where = 1 << iota
	File
	Everywhere = Variable | File
)

// Switch reports whether the setting has no value.
func (r *Row) Switch() bool { return r.Arg == "" }

// Variable returns the environment variable of the setting, or "".
func (r *Row) Variable() string {
	if r.Where&Variable == 0 {
		return ""
	}
	return "MCPSCOPE_" + strings.ReplaceAll(strings.ToUpper(r.Name), "-", "_")
}

// set parses a value of a flag, variable or file.
func (r *Row) set(v *Values, text string) error {
	if r.Switch() {
		on, err := flags.ParseSwitch(text)
		if err != nil {
			return err
		}
		text = strconv.FormatBool(on)
	}
	if r.Only && !slices.Contains(r.Values, text) {
		return fmt.Errorf("%q is none of %s", text, strings.Join(r.Values, ", "))
	}
	return r.parse(v, text)
}

// Rows returns the settings of a command, in the order of its help.
func Rows(of Command) []*Row {
	var all []*Row
	for i := range table {
		if table[i].For&of != 0 {
			all = append(all, &table[i])
		}
	}
	return all
}

// Values are the settings of one call.
type Values struct {
	Name    string
	Backend names.Backend
	Require bool
	Replace bool
	Policy  policy.Policy
	Limits  cgroup.Limits
	MinFree uint64 // bytes
	Keep    policy.Keep
	Output  Output
	Gateway OfGateway

	given  map[string]bool // the settings from flags and variables
	inFile map[string]bool // the settings from files that count
}

// Output is what a person and a program get to read.
type Output struct {
	Stderr  protocol.Stderr
	Report  string
	Quiet   bool
	Verbose bool
}

// OfGateway are the settings that only a gateway has.
type OfGateway struct {
	Configs, Match, Except []string
	WantsSession           bool          // the agent and all its servers are in a group of groups
	Session                cgroup.Limits // of that group; with one there is the group, too
	Explain                string
	Check                  bool
}

// Defaults returns the values without any setting.
func Defaults() *Values {
	return &Values{
		Backend: names.Auto, Policy: policy.Default(), Output: Output{Stderr: protocol.StderrInherit},
		given: map[string]bool{}, inFile: map[string]bool{},
	}
}

// Parse reads the environment, and then the command line. help is true if the command line requests help.
func (v *Values) Parse(of Command, args []string) (operands []string, help bool, err error) {
	return v.parse(of, args, os.Getenv)
}

func (v *Values) parse(of Command, args []string, getenv func(string) string) (
	operands []string, help bool, err error,
) {
	for _, r := range Rows(of) {
		text := getenv(r.Variable()) // "" for a setting without a variable
		if text == "" {
			continue
		}
		if err := r.set(v, text); err != nil {
			return nil, false, fmt.Errorf("%s: %w", r.Variable(), err)
		}
		v.given[r.Name] = true
	}
	return v.FromArguments(of, args)
}

// ReadFiles reads the settings files of this user.
func ReadFiles() *FileSettings { return ParseFiles(FilePlaces(os.Getenv)) }

// FromFile sets values that no flag or variable has set.
func (v *Values) FromFile(of map[string]FileValue) {
	given := slices.Clone(v.Limits.Files) // the key "set" may contain other values for these
	givenForSession := slices.Clone(v.Gateway.Session.Files)
	for _, r := range Rows(Run | Gateway) {
		value, some := of[r.Name]
		if !some || v.given[r.Name] {
			continue
		}
		v.inFile[r.Name] = true
		for _, text := range value.Texts {
			_ = r.set(v, text) // checked by parse
		}
	}
	for _, limit := range given {
		v.Limits.Put(limit)
	}
	for _, limit := range givenForSession {
		v.Gateway.Session.Put(limit)
	}
}

// Given reports whether a flag or a variable has set it.
func (v *Values) Given(name string) bool { return v.given[name] }

// IsDefault reports whether neither flag, variable nor file has set it.
func (v *Values) IsDefault(name string) bool { return !v.given[name] && !v.inFile[name] }

// Inapplicable returns the limits that a group with these controllers cannot have.
func (v *Values) Inapplicable(controllers []string) (limits []cgroup.Limit) {
	for _, limit := range v.Limits.Files {
		if !isApplicable(limit, controllers) {
			limits = append(limits, limit)
		}
	}
	return limits
}

func isApplicable(limit cgroup.Limit, controllers []string) bool {
	controller, _, _ := strings.Cut(limit.File, ".")
	return controller == "cgroup" || slices.Contains(controllers, controller)
}

// ServerEnvironment removes our variables from a client's environment. MCPSCOPE_ID can be that of a server
// around this server; the new one is added later.
func ServerEnvironment(env []string) []string { return slices.DeleteFunc(env, isOwn) }

// SplitEnvironment is ServerEnvironment that returns the variables with settings, too.
func SplitEnvironment(env []string) (server, settings []string) {
	for _, entry := range env {
		switch {
		case !isOwn(entry):
			server = append(server, entry)
		case !isInternal(entry):
			settings = append(settings, entry)
		}
	}
	return server, settings
}

// isOwn reports whether a variable is ours.
func isOwn(entry string) bool {
	key, _, _ := strings.Cut(entry, "=")
	if !strings.HasPrefix(key, "MCPSCOPE_") {
		return false
	}
	isSetting := func(r Row) bool { return r.Variable() == key }
	return isInternal(entry) || key == FileVariable || slices.ContainsFunc(table[:], isSetting)
}

// isInternal reports whether one of our variables has no setting: the id of a server, the plan of a start.
func isInternal(entry string) bool {
	return strings.HasPrefix(entry, "MCPSCOPE_ID=") || strings.HasPrefix(entry, "MCPSCOPE_PLAN=")
}

// PrintsNotes reports whether notes are printed: -q is stronger than -v.
func (v *Values) PrintsNotes() bool { return v.Output.Verbose && !v.Output.Quiet }
