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
