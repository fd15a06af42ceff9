// SPDX-License-Identifier: Apache-2.0

// Package flags reads the flags of a command line, for both programs: a user meets one grammar and one
// wording of mistakes.
//
// --flag VALUE and --flag=VALUE are the same, and so are one and two dashes. -fn5 combines short flags: the
// last of them may have a value, which is the rest of the word or the next word. "--" ends the flags. A flag
// that is repeated is set again: its Set replaces the value, or collects several.
//
// The runner links this package, so it imports nothing that the runner does not need.
package flags

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Flag is a flag that a command has.
type Flag struct {
	Name   string // without dashes
	Short  string // the same flag as one letter, or ""
	Switch bool   // it needs no value: without one it is set to "true"
	Set    func(value string) error
}

// Given is a flag on a command line.
type Given struct {
	*Flag
	As    string // with the dashes and the name of the command line
	Value string
}

// ErrHelp is the error of a command line that requests help.
var ErrHelp = errors.New("help is requested")

// help is a flag of every command.
var help = Flag{Name: "help", Short: "h", Switch: true, Set: func(string) error { return ErrHelp }}

// SetBeforeOperands sets the flags of a command line up to the first operand or "--". It returns the rest,
// which may be the command line of another program.
func SetBeforeOperands(known []Flag, args []string) (operands []string, err error) {
	for len(args) > 0 {
		words, err := setFirst(known, args)
		switch {
		case err != nil:
			return nil, err
		case words == 0 && args[0] == "--":
			return args[1:], nil
		case words == 0:
			return args, nil
		}
		args = args[words:]
	}
	return nil, nil
}

// SetAmongOperands sets the flags of a command line up to "--", and returns all other words.
func SetAmongOperands(known []Flag, args []string) (operands []string, err error) {
	for len(args) > 0 {
		words, err := setFirst(known, args)
		switch {
		case err != nil:
			return nil, err
		case words == 0 && args[0] == "--":
			return append(operands, args[1:]...), nil
		case words == 0:
			operands = append(operands, args[0])
			words = 1
		}
		args = args[words:]
	}
	return operands, nil
}

// setFirst sets the flags of the first word, and returns how many words they take: 0 without a flag.
func setFirst(known []Flag, args []string) (words int, err error) {
	given, words, err := ReadFirst(known, args)
	if err != nil {
		return 0, err
	}
	for _, flag := range given {
		if err := flag.set(); err != nil {
			return 0, err
		}
	}
	return words, nil
}

func (g *Given) set() error {
	err := g.Set(g.Value)
	if err == nil || errors.Is(err, ErrHelp) {
		return err
	}
	return fmt.Errorf("%s %q: %w", g.As, g.Value, err)
}

// ReadFirst reads the flags of the first word, and returns how many words they take: 0 if the first word is
// an operand or "--". Only a word that combines short flags has several.
func ReadFirst(known []Flag, args []string) (given []Given, words int, err error) {
	if len(args) == 0 || len(args[0]) < 2 || args[0][0] != '-' || args[0] == "--" {
		return nil, 0, nil
	}
	as, value, hasValue := strings.Cut(args[0], "=")
	last := Given{Flag: find(known, strings.TrimPrefix(as[1:], "-")), As: as, Value: value}
	if last.Flag == nil {
		given, last, hasValue = splitShort(known, args[0])
	}
	switch {
	case last.Flag == nil:
		return nil, 0, unknown(known, as)
	case hasValue:
		return append(given, last), 1, nil
	case last.Switch:
		last.Value = "true"
		return append(given, last), 1, nil
	case len(args) == 1:
		return nil, 0, fmt.Errorf("flag %s needs a value", last.As)
	}
	last.Value = args[1]
	return append(given, last), 2, nil
}

// splitShort returns the flags of a word that combines short ones. All but the last are switches. The last
// has no Flag if a letter is unknown.
func splitShort(known []Flag, word string) (given []Given, last Given, hasValue bool) {
	letters := word[1:]
	for i := range letters {
		flag := find(known, letters[i:i+1])
		rest := letters[i+1:]
		last = Given{Flag: flag, As: "-" + letters[i:i+1]}
		switch {
		case flag == nil:
			return nil, Given{}, false
		case rest == "":
			return given, last, false
		case rest[0] == '=' || !flag.Switch:
			last.Value = strings.TrimPrefix(rest, "=")
			return given, last, true
		}
		last.Value = "true"
		given = append(given, last)
	}
	return nil, Given{}, false
}

// find returns nil for an unknown name.
func find(known []Flag, name string) *Flag {
	for i, flag := range known {
		if flag.Name == name || flag.Short != "" && flag.Short == name {
			return &known[i]
		}
	}
	if name == help.Name || name == help.Short {
		return &help
	}
	return nil
}

// ParseSwitch reads the value of a switch, in the spellings of strconv.ParseBool.
func ParseSwitch(text string) (on bool, err error) {
	on, err = strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", text)
	}
	return on, nil
}

// Dashes returns a name of a flag with its dashes.
func Dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
