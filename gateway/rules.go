package gateway

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Caller is a process that is about to execute a program.
type Caller struct {
	// Direct: the gateway has started it.
	Direct bool
	// Stdio: its stdin and stdout are both pipes or sockets.
	Stdio bool
	// Leader: it leads a session of its own.
	Leader bool
	// Argv is nil where nobody may look at it before the program runs.
	Argv []string
	// Path is the file, and Interpreter what its first line asks for.
	Path, Interpreter string
}

// Verdict says what a caller is.
type Verdict int

const (
	Left   Verdict = iota // no server
	Taken                 // a server
	Unsure                // the program tells, once it runs
)

// Rules say which child is a server.
type Rules struct {
	// Match are patterns of a command's base name or whole line. If there is one, what
	// matches is a server, wherever it is below the gateway, and nothing else is.
	Match []string
	// Except are patterns of what never is.
	Except []string
	// Configured are those that are known by their whole command line.
	Configured []Configured
}

// anywhere: a server need not be the gateway's own child.
func (r Rules) anywhere() bool { return len(r.Match) > 0 || len(r.Configured) > 0 }

// Decide errs on the side of leaving: when a server's main process has ended, so has all that
// it has started, which must not happen to what a tool call leaves running on purpose.
func (r Rules) Decide(c Caller) (v Verdict, why string) {
	if c.Argv != nil && isRun(c.Argv) {
		return Left, "mcpscope run contains it"
	}
	if glob := matching(r.Except, c.Argv); glob != "" {
		return Left, fmt.Sprintf("--except %q", glob)
	}
	if known := r.configured(c.Argv); known != nil && c.Stdio {
		return Taken, fmt.Sprintf("configured as %q in %s", known.Name, known.File)
	}
	if len(r.Match) > 0 && c.Argv != nil {
		if glob := matching(r.Match, c.Argv); glob != "" {
			return Taken, fmt.Sprintf("--match %q", glob)
		}
		return Left, "no --match"
	}
	switch {
	case !c.Direct:
		return Left, "no child of the gateway's own"
	case !c.Stdio:
		return Left, "stdin or stdout is neither a pipe nor a socket"
	case c.Argv == nil:
		return Unsure, "not to be seen before it runs"
	}
	return byProgram(c)
}

func byProgram(c Caller) (Verdict, string) {
	base := path.Base(c.Path)
	switch {
	case namesMCP(base):
		return Taken, fmt.Sprintf("%q has mcp in its name", base)
	case isLauncher(base):
		return Taken, fmt.Sprintf("%q runs servers", base)
	case isLauncher(path.Base(c.Interpreter)):
		return Taken, fmt.Sprintf("%q is run by %q", base, path.Base(c.Interpreter))
	case isShell(base), isShell(path.Base(c.Interpreter)):
		return Left, "a shell may run anything; --match would take it"
	case c.Leader:
		return Taken, "a session of its own"
	}
	return Left, fmt.Sprintf("%q is not known to run servers, and is in the gateway's session", base)
}

// isRun: it makes a group itself, and what is in it needs no other. That goes for its supervisor
// too, who comes home to a gateway that is a subreaper.
func isRun(argv []string) bool {
	return len(argv) > 1 && (path.Base(argv[0]) == "mcpscope" || path.Base(argv[0]) == "mcpscopectl") && argv[1] != "gateway"
}

// matching returns the pattern that matches, or "".
func matching(globs, argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	line := strings.Join(argv, " ")
	for _, g := range globs {
		if matches(g, line) || matches(g, path.Base(argv[0])) {
			return g
		}
	}
	return ""
}

// matches knows * and ? alone, which may stand for a slash: that is why it is not path.Match.
func matches(glob, s string) bool {
	star, from := -1, 0
	g := 0
	for i := 0; i < len(s); {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g, i = g+1, i+1
		case star >= 0: // the last star takes one more
			from++
			g, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}

// namesMCP: one of the words of a file's name is mcp.
func namesMCP(base string) bool {
	words := strings.FieldsFunc(strings.ToLower(base), func(r rune) bool { return strings.ContainsRune("-_.", r) })
	return slices.Contains(words, "mcp")
}

// isLauncher knows what MCP servers are usually run by, with or without a version.
func isLauncher(base string) bool {
	switch strings.TrimRight(base, "0123456789.") {
	case "npx", "npm", "pnpm", "yarn", "node", "nodejs", "bun", "bunx", "deno", "tsx", "uvx", "uv", "pipx", "python", "pypy",
		"docker", "podman", "nerdctl", "java", "dotnet", "ruby", "php":
		return true
	}
	return false
}

func isShell(base string) bool {
	switch base {
	case "sh", "bash", "dash", "zsh", "fish", "ash", "ksh", "mksh", "busybox", "tcsh", "csh", "nu", "pwsh":
		return true
	}
	return false
}
