// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"slices"

	"github.com/mcpscope/mcpscope/internal/flags"
)

// flagsOf returns the flags of a command, which set the values.
func (v *Values) flagsOf(of Command) []flags.Flag {
	var known []flags.Flag
	for _, r := range Rows(of) {
		set := func(text string) error {
			if err := r.set(v, text); err != nil {
				return err
			}
			v.given[r.Name] = true
			return nil
		}
		known = append(known, flags.Flag{Name: r.Name, Short: r.Short, Switch: r.Switch(), Set: set})
	}
	return known
}

// FromArguments reads flags up to "--", or to the first other argument. The rest are the operands.
func (v *Values) FromArguments(of Command, args []string) (operands []string, help bool, err error) {
	operands, err = flags.SetBeforeOperands(v.flagsOf(of), args)
	if errors.Is(err, flags.ErrHelp) {
		return nil, true, nil
	}
	return operands, false, err
}

// SetFlag returns the flags of a command line with that value for one of them. A flag that is there keeps its
// place and its form; another one becomes the first. args are flags without operands, and may end with "--".
// The flag has no short form, so a word that combines short flags stays as it is.
func SetFlag(of Command, args []string, name, value string) ([]string, error) {
	known := Defaults().flagsOf(of)
	found := false
	args = slices.Clone(args)
	for rest := args; ; {
		given, words, err := flags.ReadFirst(known, rest)
		switch {
		case err != nil:
			return nil, err
		case words == 0:
			if !found {
				args = slices.Insert(args, 0, flags.Dashes(name), value)
			}
			return args, nil
		case given[0].Name != name:
		case words == 2:
			rest[1] = value
			found = true
		default:
			rest[0] = given[0].As + "=" + value
			found = true
		}
		rest = rest[words:]
	}
}

// GivenFlag is a flag in a command line, or a word of several short ones.
type GivenFlag struct {
	Name  string // of the last one; "" for the words from a mistake on
	Value string
	Words []string
}

// GivenFlags returns the flags of a command line, up to "--" or the first other argument.
func GivenFlags(of Command, args []string) []GivenFlag {
	known := Defaults().flagsOf(of)
	var all []GivenFlag
	for {
		given, words, err := flags.ReadFirst(known, args)
		switch {
		case err != nil:
			end := slices.Index(args, "--")
			if end < 0 {
				end = len(args)
			}
			return append(all, GivenFlag{Words: args[:end]})
		case words == 0:
			return all
		}
		last := given[len(given)-1]
		all = append(all, GivenFlag{Name: last.Name, Value: last.Value, Words: args[:words]})
		args = args[words:]
	}
}
