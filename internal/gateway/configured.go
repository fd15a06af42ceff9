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
	Name   string // "" without a name in the file
	Client string // as `mcpscope wrap` calls it; "" for a file of no known client
	File   string
	// Argv is the text of the file, with variables and "~" as they are there.
	Argv []string
	// Env are the variables that the file sets, with their text.
	Env map[string]string
	// Listens reports that its clients use HTTP, so its stdin may be anything.
	Listens bool
}

// haveListening reports whether one of the configured servers has clients that use HTTP.
func (r Rules) haveListening() bool {
	return slices.ContainsFunc(r.Configured, func(c Configured) bool { return c.Listens })
}

// Server returns the configured server that a command line is of, or nil.
func (r Rules) Server(argv []string) *Configured {
	for i := range r.Configured {
		c := &r.Configured[i]
		if c.IsStartedBy(argv) {
			return c
		}
	}
	return nil
}

// IsStartedBy reports whether a command line starts the server, also with the interpreter of a script.
func (c *Configured) IsStartedBy(argv []string) bool {
	return c.hasCommand(argv) || c.hasCommand(withoutInterpreter(argv, len(c.Argv)))
}

// hasCommand compares the command by its base name: clients look for it in PATH. The line for a shell has
// to be the same word by word, since another line would be another program.
func (c *Configured) hasCommand(argv []string) bool {
	if len(argv) == 0 || len(argv) != len(c.Argv) || path.Base(argv[0]) != path.Base(c.Argv[0]) {
		return false
	}
	isShell := name.KindOf(argv[0]) == name.Shell
	for i, arg := range c.Argv[1:] {
		if arg != argv[i+1] && (isShell || !canBecome(arg, argv[i+1])) {
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

// pattern is a glob for a text with variables: these match anything, and all else matches itself. It is ""
// for a text without variables.
func pattern(text string) string {
	var built strings.Builder
	hasVariable := false
	rest, isInHome := strings.CutPrefix(text, "~/")
	if isInHome {
		hasVariable = true
		built.WriteString("*/")
	}
	for rest != "" {
		length := variableLength(rest)
		if length == 0 {
			built.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		hasVariable = true
		built.WriteByte('*')
		rest = rest[length:]
	}
	if !hasVariable {
		return ""
	}
	return built.String()
}

// variableLength returns the length of a variable at the beginning of a text, 0 without one: ${NAME},
// ${env:NAME}, ${input:NAME}, $NAME, or opencode's {env:NAME} and {file:NAME}.
func variableLength(text string) int {
	for _, begin := range []string{"${", "{env:", "{file:"} {
		end := strings.IndexByte(text, '}')
		if strings.HasPrefix(text, begin) && end > 0 {
			return end + 1
		}
	}
	name, hasDollar := strings.CutPrefix(text, "$")
	letters := len(name) - len(strings.TrimLeftFunc(name, isNameLetter))
	if !hasDollar || letters == 0 {
		return 0
	}
	return 1 + letters
}

func isNameLetter(r rune) bool {
	return r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
}

// canBecome reports whether a client can have made a text of a configured one.
func canBecome(configured, text string) bool {
	return configured == text || glob.Matches(pattern(configured), text)
}
