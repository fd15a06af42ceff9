// SPDX-License-Identifier: Apache-2.0

package name

import (
	"strings"
	"unicode"
)

const fallback = "server"

// Derive returns a name for the server that a command line starts. It never
// fails: what it can't read it names by the program, and "server" is last.
func Derive(argv []string) string {
	if len(argv) == 0 {
		return fallback
	}
	c := command{argv: argv}
	for _, candidate := range []string{c.name(), base(argv[0]), fallback} {
		if n := sanitise(candidate); n != "" {
			return n
		}
	}
	return fallback
}

// command is a command line, or the part of one that another program will run.
type command struct {
	argv  []string
	dir   string // where it says that it will run; "" when it does not
	depth int    // how many programs we have looked through
}

// maxDepth ends what a generated command line could nest without end. Real
// ones have three or four: sudo, env, sh -c, npx.
const maxDepth = 16

// name is what the command runs, or else the program that would run it.
func (c command) name() string {
	if len(c.argv) == 0 {
		return ""
	}
	if n := c.look(); telling(n) {
		return n
	}
	return c.file(c.argv[0])
}

// then is the command that c runs in its turn.
func (c command) then(argv []string) command {
	return command{argv: argv, dir: c.dir, depth: c.depth + 1}
}

// in is c, run in a directory that a flag gave; "" is none.
func (c command) in(dir string) command {
	c.dir = join(c.dir, dir)
	return c
}

// look is what the program runs, where it is one that runs something else and
// the command line says what; otherwise "".
func (c command) look() string {
	if c.depth > maxDepth {
		return ""
	}
	tool, args := toolName(c.argv[0]), c.argv[1:]
	if p, ok := prefixes()[tool]; ok {
		return c.behind(p, args)
	}
	if i, ok := interpreters()[tool]; ok {
		return c.script(i, args)
	}
	switch tool {
	case "npx", "bunx", "pnpx", "dnx":
		return c.npx(args)
	case "uvx":
		return c.uvx(args)
	case "npm", "pnpm", "yarn":
		return c.npm(args)
	case "bun":
		return c.bun(args)
	case "uv":
		return c.uv(args)
	case "pipx":
		return c.pipx(args)
	case "docker", "podman", "nerdctl":
		return c.docker(args)
	case "docker-compose", "podman-compose":
		return c.compose(args)
	case "go":
		return c.golang(args)
	case "cargo":
		return c.cargo(args)
	case "dotnet":
		return c.dotnet(args)
	case "sh", "bash", "zsh", "dash", "ash", "ksh", "fish":
		return c.shell(args)
	case "env":
		return c.env(args)
	case "mcp", "fastmcp":
		return c.mcp(args)
	case "mcpscope":
		return c.mcpscope(args)
	}
	return ""
}

// toolName is the name of a program without what its place, its system and its
// version add: /usr/bin/python3.12 and PYTHON.EXE are both python.
func toolName(arg string) string {
	n := strings.ToLower(trimExt(base(arg)))
	return strings.TrimRight(n, "0123456789.")
}

// telling: what has no letter and no digit ("-", ".", "*") is syntax.
func telling(n string) bool {
	return strings.ContainsFunc(n, func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r)
	})
}
