// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/name"
)

// ConfiguredCommand is the subcommand of the larger program that prints them.
const ConfiguredCommand = "configured"

// Configured is a server that some configuration of this user's has.
type Configured struct {
	Name string // "" without a name in the file
	File string
	// Argv is the text of the file, with variables and "~" as they are there.
	Argv []string
	// Listens: its clients use HTTP, so its stdin may be anything.
	Listens bool
}

// listening: clients of one of them use HTTP.
func (r Rules) listening() bool {
	return slices.ContainsFunc(r.Configured, func(c Configured) bool { return c.Listens })
}

// Server finds the configured server that a command line is of, nil for none.
func (r Rules) Server(argv []string) *Configured {
	for i := range r.Configured {
		if c := &r.Configured[i]; c.is(argv) || c.is(withoutInterpreter(argv, len(c.Argv))) {
			return c
		}
	}
	return nil
}

// is compares the command by its base name: clients look for it in PATH. The line for a shell has to be
// the same word by word, since another line would be another program.
func (c *Configured) is(argv []string) bool {
	if len(argv) == 0 || len(argv) != len(c.Argv) || path.Base(argv[0]) != path.Base(c.Argv[0]) {
		return false
	}
	exact := name.KindOf(argv[0]) == name.Shell
	for i, arg := range c.Argv[1:] {
		if arg != argv[i+1] && (exact || !glob.Matches(pattern(arg), argv[i+1])) {
			return false
		}
	}
	return true
}

// withoutInterpreter returns the command line of a script. In that of a running script the kernel has put
// the interpreter first.
func withoutInterpreter(argv []string, length int) []string {
	extra := len(argv) - length
	if extra < 1 || extra > 2 || name.KindOf(argv[0]) == name.Other {
		return nil
	}
	if name.KindOf(argv[0]) == name.Shell && strings.HasPrefix(argv[1], "-c") {
		return nil // what it runs is the next argument alone
	}
	return argv[extra:]
}

// pattern stands for an argument that the client expands: $NAME, ${NAME}, ${env:NAME}, {env:NAME} or ~/, with
// the text between several of them. For any other argument it matches nothing else.
func pattern(arg string) string {
	if rest, home := strings.CutPrefix(arg, "~/"); home {
		arg = "$HOME/" + rest
	}
	first, last := strings.IndexAny(arg, "${"), strings.LastIndexAny(arg, "${")
	if first < 0 {
		return ""
	}
	rest := arg[last+1:]
	if arg[last] == '{' {
		_, rest, _ = strings.Cut(rest, "}") // without a brace it takes the rest
	} else {
		rest = strings.TrimLeftFunc(rest, isNameLetter)
	}
	return arg[:first] + "*" + rest
}

func isNameLetter(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}
