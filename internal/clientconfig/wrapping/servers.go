// SPDX-License-Identifier: Apache-2.0

// Package wrapping puts `mcpscope run --name NAME --` in front of the commands of servers in a client's
// configuration, and takes it away again.
//
// A changed file differs from the old one in command and arguments of the servers that were meant, and in
// nothing else. Where that can't be had the file stays as it is. The package does no I/O and knows no client.
package wrapping

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
	"github.com/mcpscope/mcpscope/internal/name"
)

// A Place is where servers are in a file: the keys on the way to the map or list of them. "*" is any key.
type Place []string

// A State is how it stands with a server.
type State string

// The states.
const (
	Bare        State = "bare"         // it can be wrapped
	Wrapped     State = "wrapped"      // it is
	Broken      State = "broken"       // it is, by an mcpscope that no client can start, or with wrong flags
	NotEditable State = "not editable" // for the reason
)

// A Server is one as it is in a file.
type Server struct {
	Name    string
	State   State
	Reason  string // why it can't be changed
	Argv    []string
	Listens bool // it is started by its command, and reached by HTTP
	// Env are the variables that the file sets for it, with the text of the file.
	Env map[string]string
	// Mistake is that in the flags of mcpscope run, or "".
	Mistake string
	Dirs    Dirs

	entry
	unnamed bool // Name is only for people
	prefix  int  // how many words of Argv are ours
}

// Dirs are the directories that a file names for a server, with its text, or "".
type Dirs struct {
	Project string // the section of the file is for this project alone
	Working string // where the client starts the server
}

// Program is the base name of the program in front of wrapped servers.
const Program = "mcpscope"

// A Reader lists the servers of a file.
type Reader struct {
	Places   []Place
	Obstacle string // why the file must not be edited, or ""
	Shared   string // why bare servers stay bare, and wrapped servers as they are, or ""
	// IsOfWindows: the client runs on Windows.
	IsOfWindows bool
	Shell       bool // the client joins command and arguments to a line for a shell
	// Exists reports whether a command that looks like a line of a shell is a file.
	Exists func(string) bool
	// Starts reports whether a client can start that mcpscope.
	Starts func(program string) bool
	// Operands removes the flags of run, and returns the server's own command.
	Operands func(args []string) ([]string, error)
	// SetFlag gives one of the flags of run that value.
	SetFlag func(flags []string, name, value string) ([]string, error)
}

// A Runner is the program, with flags, in front of the commands of wrapped servers.
type Runner struct {
	Program string
	Chosen  bool   // by a person: it replaces the program of servers that are wrapped, too
	Flags   []Flag // of run
}

// A Flag is one of run, without its dashes.
type Flag struct{ Name, Value string }

// Servers are all that the file has, in its order.
func (r Reader) Servers(d *splice.Document) []Server {
	why := cmp.Or(r.Obstacle, d.Obstacle)
	if key, found := d.Root.Repeated(); found {
		why = fmt.Sprintf("there is more than one %q", key)
	}
	var servers []Server
	for _, p := range r.Places {
		servers = append(servers, r.serversBelow(d.Root, p, why)...)
	}
	startsOnWindows := func(s Server) bool { return isOfWindows(s.Argv) }
	if r.IsOfWindows || slices.ContainsFunc(servers, startsOnWindows) {
		leaveToWindows(servers)
	}
	return servers
}

// leaveToWindows leaves the bare servers of a file alone. Where one of them is a program of Windows, or WSL
// as Windows has it, the client is there too, and could start none of them by mcpscope.
func leaveToWindows(servers []Server) {
	for i := range servers {
		if servers[i].State == Bare {
			servers[i].State = NotEditable
			servers[i].Reason = "its client runs on Windows, which cannot start mcpscope"
		}
	}
}

// isOfWindows reports whether a command is one of Windows alone. A program of Windows below a Linux client
// has a path such as /mnt/c.
func isOfWindows(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	command, _, _ := strings.Cut(argv[0], " ") // it may be a whole line
	command = strings.ToLower(command)
	isOnDrive := len(command) > 2 && command[1] == ':' && strings.ContainsRune(`\/`, rune(command[2]))
	return isOnDrive || slices.Contains([]string{"wsl", "wsl.exe", "cmd", "cmd.exe"}, command)
}

// serversBelow returns the servers at a place below a node. why is the reason that none of them can be
// changed, or "".
func (r Reader) serversBelow(n *splice.Node, p Place, why string) []Server {
	if len(p) == 0 {
		return r.serversIn(n, why)
	}
	var servers []Server
	for _, m := range n.Members {
		if m.Name != p[0] && p[0] != "*" {
			continue
		}
		below := r.serversBelow(m.Value, p[1:], why)
		if p[0] == "*" && path.IsAbs(m.Name) {
			for i := range below {
				below[i].Dirs.Project = m.Name
			}
		}
		servers = append(servers, below...)
	}
	return servers
}

// serversIn returns the servers of a map or a list.
func (r Reader) serversIn(n *splice.Node, why string) []Server {
	var servers []Server
	for _, m := range n.Members {
		if m.Name != "<<" { // the merge key of YAML
			servers = append(servers, r.server(m.Name, m.Value, why))
		}
	}
	for i, item := range n.Items {
		s := r.server(text(item, "name"), item, why)
		if s.Name == "" {
			s.Name = fmt.Sprintf("#%d", i+1)
			s.unnamed = true
		}
		servers = append(servers, s)
	}
	return servers
}

// text returns the value of the first of the keys that has a text, or "".
func text(n *splice.Node, keys ...string) string {
	for _, key := range keys {
		v := n.Get(key)
		if v != nil && v.Kind == splice.Text {
			return v.Text
		}
	}
	return ""
}

func (r Reader) server(name string, n *splice.Node, why string) Server {
	n = withCommand(n)
	s := Server{Name: name, entry: findCommand(n)}
	s.Argv = s.argv()
	s.Listens = s.command != nil && listens(n)
	s.Env = environment(s.owner)
	s.Dirs.Working = text(n, "cwd")
	if s.isFixed() {
		why = cmp.Or(why, fixedYAML)
	}
	s.State = NotEditable
	s.Reason = cmp.Or(kind(n, s.entry), s.obstacle(), r.oddity(s.Argv))
	switch {
	case s.Reason != "":
	case s.startsRunner():
		s.State = Wrapped
		s.Reason = cmp.Or(s.findOwn(r), why)
		if s.Mistake != "" || !r.Starts(s.Argv[0]) {
			s.State = Broken
		}
	case why != "":
		s.Reason = why
	default:
		s.State = Bare
		s.Reason = r.Shared
	}
	return s
}

// environment are the variables of a server. Goose calls them envs, and opencode environment.
func environment(n *splice.Node) map[string]string {
	env := map[string]string{}
	for _, key := range []string{"env", "envs", "environment"} {
		variables := n.Get(key)
		if variables == nil {
			continue
		}
		for _, m := range variables.Members {
			env[m.Name] = m.Value.Text
		}
	}
	return env
}

// kind returns the reason why the client does not start a server, or "".
func kind(n *splice.Node, e entry) string {
	switch {
	case n.Kind != splice.Map:
		return "it is no table of settings"
	case hasOtherTransport(n):
		return fmt.Sprintf("it is of type %q", transportOf(n))
	case e.command == nil && hasAddress(n):
		return "it is remote"
	case e.command == nil:
		return "it has no command"
	}
	return ""
}

// listens reports whether a server with a command is reached by HTTP: its type is another, or it has an
// address.
func listens(n *splice.Node) bool { return hasOtherTransport(n) || hasAddress(n) }

func transportOf(n *splice.Node) string { return text(n, "type", "transport") }

// hasOtherTransport reports whether the transport of a server is not its stdin. opencode has the type local
// for servers with a command.
func hasOtherTransport(n *splice.Node) bool {
	t := transportOf(n)
	return t != "" && t != "stdio" && t != "local"
}

func hasAddress(n *splice.Node) bool {
	return text(n, "url", "httpUrl", "serverUrl", "uri") != ""
}

// oddity is why a command would not mean the same behind a prefix.
func (r Reader) oddity(argv []string) string {
	switch {
	case len(argv) == 0 || argv[0] == "":
		return "its command is empty"
	case strings.HasPrefix(argv[0], "~"):
		return "its command begins with ~, which clients may not expand in args: write the full path"
	case strings.ContainsAny(argv[0], " \t\n") && !strings.Contains(argv[0], "${") && !r.Exists(argv[0]):
		return "its command is a whole line; put the arguments into args"
	}
	return ""
}

func (s *Server) startsRunner() bool {
	return len(s.Argv) > 1 && path.Base(s.Argv[0]) == Program && s.Argv[1] == "run"
}

// IsWrapped reports whether the command of the server begins with mcpscope.
func (s *Server) IsWrapped() bool { return s.State == Wrapped || s.State == Broken }

// findOwn finds the server's own command behind the prefix. It returns the reason if it finds no command, or
// "".
func (s *Server) findOwn(r Reader) string {
	command, err := r.Operands(s.Argv[2:])
	end := slices.Index(s.Argv, "--")
	switch {
	case err != nil && end > 0:
		command = s.Argv[end+1:]
		s.Mistake = err.Error()
	case err != nil:
		command = nil
	}
	if len(command) == 0 {
		return "its own command cannot be told from the flags before it"
	}
	s.prefix = len(s.Argv) - len(command)
	wordsBeforeArgs := len(s.Argv) - len(s.args.Items)
	s.inner = s.prefix - wordsBeforeArgs
	return ""
}

// Line returns the line of the file in which the command of a server with a command begins.
func (s *Server) Line(d *splice.Document) int { return d.Line(s.command) }

// Own returns the command without mcpscope.
func (s *Server) Own() []string { return s.Argv[s.prefix:] }

// Prefix returns the words before the server's own command.
func (s *Server) Prefix() []string { return s.Argv[:s.prefix] }

// WrappedPrefix returns what Prefix is after a wrap. Of a wrapped server it keeps what the runner does not
// set: the flags that a person has written by hand.
func (r Reader) WrappedPrefix(s *Server, runner Runner) ([]string, error) {
	program := runner.Program
	flags := r.firstFlags(s)
	if s.IsWrapped() {
		flags = s.Argv[2:s.prefix]
		if r.Starts(s.Argv[0]) && !runner.Chosen {
			program = s.Argv[0]
		}
	}
	for _, flag := range slices.Backward(runner.Flags) { // a new flag becomes the first
		var err error
		flags, err = r.SetFlag(flags, flag.Name, flag.Value)
		if err != nil {
			return nil, err
		}
	}
	return append([]string{program, "run"}, flags...), nil
}

// firstFlags are the flags that wrap gives a bare server, with their end.
func (r Reader) firstFlags(s *Server) []string {
	label := r.Label(s)
	if label == "" {
		return []string{"--"}
	}
	return []string{"--name", label, "--"}
}

// Label returns the name that wrap gives a server, or "" if the file contains no name.
func (r Reader) Label(s *Server) string {
	label := s.Label()
	if r.Shell {
		label = strings.Map(plain, label)
	}
	return label
}

// plain replaces what a shell could take for something else.
func plain(r rune) rune {
	if strings.ContainsRune("-_.", r) || r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
		return r
	}
	return '-'
}

// Label returns a name for the group, or "" if the file contains no name.
func (s *Server) Label() string {
	if s.unnamed {
		return ""
	}
	return name.Fit(s.Name)
}

// DerivedName is the name that mcpscope run makes of the server's own command.
func (s *Server) DerivedName() string { return name.Derive(s.Own()) }

// fixedYAML is the reason for a server that can be changed by hand alone.
const fixedYAML = "its YAML has an anchor or a text of several lines"

// ByHand reports whether a person can change what mcpscope cannot.
func (s *Server) ByHand() bool {
	return slices.Contains([]string{fixedYAML, splice.SeveralDocuments, splice.OtherLineBreaks}, s.Reason)
}

// Lines are the lines of YAML that a person can put in the place of the server's command and args, for a
// server with that prefix.
func (s *Server) Lines(prefix []string) []string {
	raws := quoteAll(append(slices.Clone(prefix), s.Own()[0]))
	rest := "" // of the arguments
	switch len(s.Own()) {
	case 1:
	case 2:
		rest = ", …the argument that is there now" // which may be a secret
	default:
		rest = fmt.Sprintf(", …the %d arguments that are there now", len(s.Own())-1)
	}
	if s.isList() {
		return []string{s.key + ": [" + strings.Join(raws, ", ") + rest + "]"}
	}
	args := strings.TrimPrefix(strings.Join(raws[1:], ", ")+rest, ", ")
	return []string{s.key + ": " + raws[0], "args: [" + args + "]"}
}
