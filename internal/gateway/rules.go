// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/name"
)

// Caller is a process that is about to execute a program.
type Caller struct {
	// Stdio: its stdin and stdout are both pipes or sockets.
	Stdio bool
	// Inherited: its stdin is the gateway's own.
	Inherited bool
	// Argv is nil where nobody may look at it before the program runs.
	Argv []string
	// Path is the file, and Interpreter what its first line asks for.
	Path, Interpreter string
}

// Verdict says what a caller is.
type Verdict int

const (
	Left      Verdict = iota // no server
	Taken                    // a server
	Candidate                // what is written to its stdin tells
)

// Rules say which program is a server.
type Rules struct {
	// Match are patterns of a command's base name or whole line: what matches is a server, wherever it
	// is below the gateway.
	Match []string
	// Except are patterns of what never is.
	Except []string
	// Configured are those that are known by their whole command line.
	Configured []Configured
}

// Decide errs on the side of leaving: when a server's main process has ended, so has all that
// it has started, which must not happen to what a tool call leaves running on purpose.
func (r Rules) Decide(c Caller) (v Verdict, why string) {
	if isRun(c.Argv) {
		return Left, "mcpscope run contains it"
	}
	if pattern := glob.Find(r.Except, c.Argv); pattern != "" {
		return Left, fmt.Sprintf("--except %q", pattern)
	}
	if known := r.Server(c.Argv); known != nil && (c.Stdio || known.Listens) {
		return Taken, fmt.Sprintf("configured as %q in %s", known.Name, known.File)
	}
	if pattern := glob.Find(r.Match, c.Argv); pattern != "" {
		return Taken, fmt.Sprintf("--match %q", pattern)
	}
	switch {
	case !c.Stdio:
		return Left, "its stdin or stdout is neither a pipe nor a socket"
	case c.Inherited:
		return Left, "its stdin is the gateway's own"
	}
	return Candidate, ""
}

// byName is for what may not be looked at. It is narrow: a gateway's own workers are run by the same
// programs as servers are.
func byName(c Caller) (Verdict, string) {
	if len(c.Argv) == 0 {
		return Left, "neither its stdin nor its command line may be looked at"
	}
	base := path.Base(c.Path)
	switch called := name.Derive(c.Argv); {
	case namesMCP(base):
		return Taken, fmt.Sprintf("%q has mcp in its name, and what it is told could not be looked at", base)
	case namesMCP(called):
		return Taken, fmt.Sprintf("%q has mcp in its name, and what it is told could not be looked at", called)
	case isRunner(base):
		return Taken, fmt.Sprintf("%q runs servers, and what it is told could not be looked at", base)
	}
	return Left, "its stdin may not be looked at; --config or --match would take it"
}

// isRun: it makes a group itself, and what is in it needs no other. That goes for its supervisor
// too, who comes home to a gateway that is a subreaper.
func isRun(argv []string) bool {
	return len(argv) > 1 && (path.Base(argv[0]) == "mcpscope" || path.Base(argv[0]) == "mcpscopectl") && argv[1] != "gateway"
}

// namesMCP: one of the words of a file's name is mcp.
func namesMCP(base string) bool {
	words := strings.FieldsFunc(strings.ToLower(base), func(r rune) bool { return strings.ContainsRune("-_.", r) })
	return slices.Contains(words, "mcp")
}

// isRunner: it is given a package or an image, and is seldom started with both ends of a pipe for
// anything but a server.
func isRunner(base string) bool {
	kind := name.KindOf(base)
	return kind == name.Runner || kind == name.Engine
}

// isInterpreter: it takes longer to start than a client to speak.
func isInterpreter(base string) bool { return name.KindOf(base) != name.Other && !isShell(base) }

func isShell(base string) bool { return name.KindOf(base) == name.Shell }
