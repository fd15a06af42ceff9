// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpscope/mcpscope/internal/glob"
	"github.com/mcpscope/mcpscope/internal/name"
)

// Caller is a process that is about to execute a program.
type Caller struct {
	// Stdio reports that its stdin and stdout are both pipes or sockets.
	Stdio bool
	// Inherited reports that its stdin is the gateway's own.
	Inherited bool
	Argv      []string
}

// Verdict is the decision about a caller by its command line and its descriptors.
type Verdict int

const (
	// NotServer runs on as it would have.
	NotServer Verdict = iota
	// IsServer gets a group.
	IsServer
	// MayBeServer is a program whose input shows whether it is a server.
	MayBeServer
	// NamedLikeServer is a program that only its name shows to be a server. It is contained at once, and
	// nothing stops it before its client wrote MCP: tools of people who develop servers have such names, too.
	NamedLikeServer
)

// Rules say which program is a server.
type Rules struct {
	// Match are patterns of a command's base name or whole line: every match below the gateway is a
	// server.
	Match []string
	// Except are patterns of commands that never are servers.
	Except []string
	// Configured are those that are known by their whole command line.
	Configured []Configured
}

// Decide errs on the side of leaving: when a server's main process has ended, so has all that it has started,
// which must not happen to processes that a tool leaves running on purpose.
func (r Rules) Decide(c Caller) (v Verdict, why string) {
	if isMcpscope(c.Argv) {
		return NotServer, "mcpscope run contains it"
	}
	if pattern := glob.Find(r.Except, c.Argv); pattern != "" {
		return NotServer, fmt.Sprintf("except %q", pattern)
	}
	if known := r.Server(c.Argv); known != nil && (c.Stdio || known.Listens) {
		return IsServer, known.why()
	}
	if pattern := glob.Find(r.Match, c.Argv); pattern != "" {
		return IsServer, fmt.Sprintf("match %q", pattern)
	}
	switch {
	case !c.Stdio:
		return NotServer, "its stdin or stdout is neither a pipe nor a socket"
	case readsProgram(c.Argv):
		return NotServer, "its stdin is the program that it runs"
	case c.Inherited:
		return NotServer, "its stdin is the gateway's own"
	}
	if called := name.MCP(c.Argv); called != "" {
		return NamedLikeServer, fmt.Sprintf("its name is %q", called)
	}
	return MayBeServer, ""
}

// why is the reason that a program is a server: this is its entry.
func (c *Configured) why() string { return fmt.Sprintf("configured as %q in %s", c.Name, c.File) }

// whyNamed is the reason of Decide for a server that has its name from an entry, or from its command. Decide
// knows only the command, which several entries can have, and gives the first of them.
func (r Rules) whyNamed(named *Configured, argv []string, why string) string {
	first := r.Server(argv)
	switch {
	case first == nil || why != first.why(): // another rule says so
		return why
	case named == nil:
		return fmt.Sprintf("its command is that of %q in %s", first.Name, first.File)
	}
	return named.why()
}

// readsProgram reports whether a shell or an interpreter reads its program from stdin: then a message of MCP
// in that is text of the program.
func readsProgram(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	kind := name.KindOf(argv[0])
	if kind != name.Shell && kind != name.Interpreter {
		return false
	}
	isValue := false // of the flag before it
	for _, arg := range argv[1:] {
		switch {
		case isValue:
			isValue = false
		case takesValue(kind, arg):
			isValue = true
		case arg == "-", kind == name.Shell && arg == "-s":
			return true
		case kind == name.Shell && strings.HasPrefix(arg, "+"): // a flag that is off
		case !strings.HasPrefix(arg, "-"): // a file
			return false
		case givesProgram(kind, arg):
			return false
		}
	}
	return true
}

// takesValue reports whether the next argument is the value of a flag of a shell or an interpreter.
func takesValue(kind name.Kind, flag string) bool {
	if kind == name.Shell {
		return slices.Contains([]string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}, flag)
	}
	return slices.Contains([]string{"-W", "-X", "--check-hash-based-pycs"}, flag) // of Python
}

// givesProgram reports whether a flag of a shell or an interpreter names a program or a module, or has one.
func givesProgram(kind name.Kind, flag string) bool {
	long, isLong := strings.CutPrefix(flag, "--")
	switch {
	case isLong:
		word, _, _ := strings.Cut(long, "=")
		return slices.Contains([]string{"eval", "print", "import", "require", "loader"}, word)
	case kind == name.Shell:
		return strings.Contains(flag, "c")
	}
	return strings.ContainsAny(flag, "cmepr")
}

// isMcpscope reports whether a program is mcpscope, and no gateway. It makes a group itself, and its server
// needs no other. That holds for its guard too, which is re-parented to a gateway that is a subreaper.
func isMcpscope(argv []string) bool {
	return len(argv) > 1 && name.IsMcpscope(argv[0]) && argv[1] != "gateway"
}
