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

	entry
	unnamed bool // Name is only for people
	prefix  int  // how many words of Argv are ours
}

// Program is the base name of the program in front of wrapped servers.
const Program = "mcpscope"

// A Reader lists the servers of a file.
type Reader struct {
	Places   []Place
	Obstacle string // why the file must not be edited, or ""
	Shared   string // why bare servers stay bare, and wrapped servers as they are, or ""
	Shell    bool   // the client joins command and arguments to a line for a shell
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
	var all []Server
	why := cmp.Or(r.Obstacle, d.Obstacle)
	if key, is := d.Root.Repeated(); is {
		why = fmt.Sprintf("there is more than one %q", key)
	}
	for _, p := range r.Places {
		r.walk(d.Root, p, why, &all)
	}
	return all
}

func (r Reader) walk(n *splice.Node, p Place, why string, all *[]Server) {
	if len(p) > 0 {
		for _, m := range n.Members {
			if m.Name == p[0] || p[0] == "*" {
				r.walk(m.Value, p[1:], why, all)
			}
		}
		return
	}
	for _, m := range n.Members {
		if m.Name != "<<" {
			*all = append(*all, r.server(m.Name, m.Value, why))
		}
	}
	for i, item := range n.Items {
		s := r.server(text(item, "name"), item, why)
		if s.Name == "" {
			s.Name, s.unnamed = fmt.Sprintf("#%d", i+1), true
		}
		*all = append(*all, s)
	}
}

func text(n *splice.Node, keys ...string) string {
	for _, key := range keys {
		if v := n.Get(key); v != nil && v.Kind == splice.Text {
			return v.Text
		}
	}
	return ""
}

func (r Reader) server(name string, n *splice.Node, why string) Server {
	n = withCommand(n)
	s := Server{Name: name, entry: find(n)}
	s.Argv = s.argv()
	s.Listens = s.command != nil && listens(n)
	s.Env = environment(s.owner)
	if s.isFixed() {
		why = cmp.Or(why, fixedYAML)
	}
	s.State, s.Reason = NotEditable, cmp.Or(kind(n, s.entry), s.obstacle(), r.oddity(s.Argv))
	switch {
	case s.Reason != "":
	case s.startsRunner():
		s.State, s.Reason = Wrapped, cmp.Or(s.findOwn(r), why)
		if s.Mistake != "" || !r.Starts(s.Argv[0]) {
			s.State = Broken
		}
	case why != "":
		s.Reason = why
	default:
		s.State, s.Reason = Bare, r.Shared
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
	switch t := text(n, "type", "transport"); {
	case n.Kind != splice.Map:
		return "it is no table of settings"
	case t != "" && t != "stdio" && t != "local":
		return fmt.Sprintf("it is of type %q", t)
	case e.command == nil && text(n, "url", "httpUrl", "serverUrl", "uri") != "":
		return "it is remote"
	case e.command == nil:
		return "it has no command"
	}
	return ""
}

// listens: it says so, or has an address as well.
func listens(n *splice.Node) bool {
	t := text(n, "type", "transport")
	return t != "" && t != "stdio" && t != "local" || text(n, "url", "httpUrl", "serverUrl", "uri") != ""
}

// oddity is why a command would not mean the same behind a prefix.
func (r Reader) oddity(argv []string) string {
	switch {
	case len(argv) == 0 || argv[0] == "":
		return "its command is empty"
	case strings.HasPrefix(argv[0], "~"):
		return "its command begins with ~, which a client may replace there and not in args"
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

// findOwn finds the server's own command behind the prefix. The result is why it can't be had.
func (s *Server) findOwn(r Reader) string {
	own, err := r.Operands(s.Argv[2:])
	end := slices.Index(s.Argv, "--")
	switch {
	case err != nil && end > 0:
		own = s.Argv[end+1:]
		s.Mistake = err.Error()
	case err != nil:
		own = nil
	}
	if len(own) == 0 {
		return "its own command cannot be told from the flags before it"
	}
	s.prefix = len(s.Argv) - len(own)
	s.inner = s.prefix - (len(s.Argv) - len(s.args.Items))
	return ""
}

// Own returns the command without mcpscope.
func (s *Server) Own() []string { return s.Argv[s.prefix:] }

// Prefix returns the words before the server's own command.
func (s *Server) Prefix() []string { return s.Argv[:s.prefix] }

// WrappedPrefix returns what Prefix is after a wrap. Of a wrapped server it keeps what the runner does not
// set: the flags that a person has written by hand.
func (r Reader) WrappedPrefix(s *Server, runner Runner) ([]string, error) {
	var words, flags []string
	if s.IsWrapped() {
		words = slices.Clone(s.Argv[:2])
		flags = s.Argv[2:s.prefix]
		if !r.Starts(words[0]) || runner.Chosen {
			words[0] = runner.Program
		}
	} else {
		words = []string{runner.Program, "run"}
		label := s.Label()
		if r.Shell {
			label = strings.Map(plain, label)
		}
		if label != "" {
			flags = []string{"--name", label}
		}
		flags = append(flags, "--")
	}
	for _, flag := range slices.Backward(runner.Flags) { // each one that is new becomes the first
		var err error
		if flags, err = r.SetFlag(flags, flag.Name, flag.Value); err != nil {
			return nil, err
		}
	}
	return append(words, flags...), nil
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

// fixedYAML is the reason for a server that can be changed by hand alone.
const fixedYAML = "its YAML has an anchor or a text of several lines"

// ByHand reports whether a person can change what mcpscope cannot.
func (s *Server) ByHand() bool {
	return s.Reason == fixedYAML || s.Reason == splice.SeveralDocuments
}

// Lines are the lines of YAML that a person can put in the place of the server's command and args, for a
// server with that prefix.
func (s *Server) Lines(prefix []string) []string {
	raws, rest := quoteAll(append(slices.Clone(prefix), s.Own()[0])), ""
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
