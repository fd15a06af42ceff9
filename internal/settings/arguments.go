// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"slices"
	"strings"
)

// argument is a flag at the beginning of a command line.
type argument struct {
	row   *Row // nil for a request of help
	name  string
	value string
	words int // how many words of the command line it takes
}

// firstFlag reads the flag at the beginning of args. It returns nil if there is an operand, "--" or nothing.
func firstFlag(of Command, args []string) (*argument, error) {
	if len(args) == 0 || len(args[0]) < 2 || args[0][0] != '-' || args[0] == "--" {
		return nil, nil
	}
	text := strings.TrimPrefix(strings.TrimPrefix(args[0], "-"), "-")
	name, value, assigned := strings.Cut(text, "=")
	a := &argument{row: find(of, name), name: name, value: value, words: 1}
	switch {
	case a.row == nil && (name == "h" || name == "help"):
		return a, nil
	case a.row == nil:
		return nil, fmt.Errorf("unknown flag %q", Dashes(name))
	case assigned:
	case a.row.Switch():
		a.value = "true"
	case len(args) == 1:
		return nil, fmt.Errorf("flag %s needs a value", Dashes(name))
	default:
		a.value = args[1]
		a.words = 2
	}
	return a, nil
}

// FromArguments reads flags up to "--", or to the first other argument. The rest are the operands. --flag
// VALUE and --flag=VALUE are the same, and so are one and two dashes.
func (v *Values) FromArguments(of Command, args []string) (operands []string, help bool, err error) {
	args = slices.Clone(args)
	for {
		args = splitShort(of, args)
		flag, err := firstFlag(of, args)
		switch {
		case err != nil:
			return nil, false, err
		case flag == nil && len(args) > 0 && args[0] == "--":
			return args[1:], false, nil
		case flag == nil:
			return args, false, nil
		case flag.row == nil:
			return nil, true, nil
		}
		if err := flag.row.set(v, flag.value); err != nil {
			return nil, false, fmt.Errorf("%s %q: %w", Dashes(flag.name), flag.value, err)
		}
		v.given[flag.row.Name] = true
		args = args[flag.words:]
	}
}

// splitShort makes several words of a first word that combines short switches: -qv is -q -v.
func splitShort(of Command, args []string) []string {
	if len(args) == 0 || len(args[0]) < 3 || args[0][0] != '-' || find(of, args[0][1:]) != nil {
		return args
	}
	var words []string
	for _, letter := range args[0][1:] {
		row := find(of, string(letter))
		if row == nil || row.Short != string(letter) || !row.Switch() {
			return args
		}
		words = append(words, "-"+string(letter))
	}
	return append(words, args[1:]...)
}

// SetFlag returns the flags of a command line with that value for one of them. A flag that is there keeps its
// place and its form; another one becomes the first. args are flags without operands, and may end with "--".
func SetFlag(of Command, args []string, name, value string) ([]string, error) {
	found := false
	args = slices.Clone(args)
	for rest := args; ; {
		flag, err := firstFlag(of, rest)
		switch {
		case err != nil:
			return nil, err
		case flag == nil || flag.row == nil:
			if !found {
				args = slices.Insert(args, 0, Dashes(name), value)
			}
			return args, nil
		case flag.row.Name != name:
		case flag.words == 2:
			rest[1] = value
			found = true
		default:
			word, _, _ := strings.Cut(rest[0], "=")
			rest[0] = word + "=" + value
			found = true
		}
		rest = rest[flag.words:]
	}
}
