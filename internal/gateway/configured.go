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
	Name string // or "", where the file has none
	File string
	// Argv is what the file says, with variables and "~" as they are there.
	Argv []string
	// Listens: it is spoken to by HTTP, so its stdin may be anything.
	Listens bool
}

// listening: one of them is spoken to by HTTP.
func (r Rules) listening() bool {
	return slices.ContainsFunc(r.Configured, func(c Configured) bool { return c.Listens })
}

// Server finds the configured server that a command line is of, nil for none.
func (r Rules) Server(argv []string) *Configured {
	for i := range r.Configured {
		if c := &r.Configured[i]; c.is(argv) {
			return c
		}
	}
	for i := range r.Configured {
		if c := &r.Configured[i]; c.is(withoutInterpreter(argv, len(c.Argv))) {
			return c
		}
	}
	return nil
}

// is compares the command by its base name: clients look for it in PATH. What a shell is to run has to be
// the same word by word, since another line would be another program.
func (c *Configured) is(argv []string) bool {
	if len(argv) == 0 || len(argv) != len(c.Argv) || path.Base(argv[0]) != path.Base(c.Argv[0]) {
		return false
	}
	exact := name.KindOf(path.Base(argv[0])) == name.Shell
	for i, arg := range c.Argv[1:] {
		if arg != argv[i+1] && (exact || !glob.Matches(pattern(arg), argv[i+1])) {
			return false
		}
	}
	return true
}

// withoutInterpreter is what a script was started by: of a program that runs the kernel tells the
// interpreter's command line.
func withoutInterpreter(argv []string, length int) []string {
	extra := len(argv) - length
	if extra < 1 || extra > 2 || name.KindOf(path.Base(argv[0])) == name.Other {
		return nil
	}
	if name.KindOf(path.Base(argv[0])) == name.Shell && strings.HasPrefix(argv[1], "-c") {
		return nil // what it runs is the next argument alone
	}
	return argv[extra:]
}

// pattern stands for an argument that the client expands; for any other it is one that matches nothing else.
func pattern(arg string) string {
	if rest, home := strings.CutPrefix(arg, "~/"); home {
		arg = "*/" + rest
	} else if !strings.Contains(arg, "$") && !strings.Contains(arg, "{") {
		return ""
	}
	var out strings.Builder
	for {
		before, after, found := cutVariable(arg)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteByte('*')
		arg = after
	}
}

// cutVariable cuts around the first $NAME, ${NAME}, ${env:NAME} or {env:NAME}.
func cutVariable(s string) (before, after string, found bool) {
	i := strings.IndexAny(s, "${")
	if i < 0 {
		return s, "", false
	}
	before, s = s[:i], strings.TrimPrefix(s[i:], "$")
	if strings.HasPrefix(s, "{") {
		_, after, _ = strings.Cut(s, "}") // without an end it goes to the end
		return before, after, true
	}
	return before, strings.TrimLeftFunc(s, isNameLetter), true
}

func isNameLetter(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}
