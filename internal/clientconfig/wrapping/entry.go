// SPDX-License-Identifier: Apache-2.0

package wrapping

import "github.com/mcpscope/mcpscope/internal/clientconfig/splice"

// entry is where the command of a server is.
type entry struct {
	owner   *splice.Node // the map that has the command
	key     string       // under which
	command *splice.Node // a text, or a list that has the arguments too
	args    *splice.Node // the list where the prefix goes, or nil
	inner   int          // of a wrapped one: where its own command is in that list
}

// withCommand returns the map that has the command of a server: Cline has that in one more, its transport.
func withCommand(n *splice.Node) *splice.Node {
	inner := n.Get("transport")
	if inner == nil || inner.Kind != splice.Map || findCommand(n).command != nil {
		return n
	}
	return inner
}

// findCommand finds the command of a server in each shape that clients have for it. The key can be cmd, too.
//
//	"command": "npx", "args": ["-y", "server"]
//	"command": ["npx", "-y", "server"]
//	"command": {"path": "npx", "args": ["-y", "server"]}
func findCommand(n *splice.Node) entry {
	e := entry{owner: n}
	for _, key := range []string{"cmd", "command"} {
		command := n.Get(key)
		if command != nil {
			e.key = key
			e.command = command
		}
	}
	hasOwnMap := e.command != nil && e.command.Kind == splice.Map && e.command.Get("path") != nil
	if hasOwnMap {
		e.owner = e.command
		e.key = "path"
		e.command = e.owner.Get("path")
	}
	e.args = e.owner.Get("args")
	if e.isList() {
		e.args = e.command // one list has both
	}
	return e
}

// isList reports whether command and arguments are in one list.
func (e entry) isList() bool { return e.command != nil && e.command.Kind == splice.List }

// obstacle is why the place can't be edited.
func (e entry) obstacle() string {
	switch {
	case e.command == nil:
		return ""
	case e.command.Kind != splice.Text && !e.isList():
		return "its command is no text"
	case e.args == nil:
		return ""
	case e.args.Kind != splice.List:
		return "its args are no list"
	}
	for _, item := range e.args.Items {
		if item.Kind != splice.Text && item.Kind != splice.Other {
			return "its args are more than texts"
		}
	}
	return ""
}

// isFixed reports whether an edit of the command could change other values, too, or has no place.
func (e entry) isFixed() bool {
	return e.command != nil && (e.owner.Fixed || e.command.Fixed || e.args != nil && e.args.Fixed)
}

func (e entry) argv() []string {
	var argv []string
	for _, n := range e.words() {
		argv = append(argv, n.Text)
	}
	return argv
}

// words are the command and the arguments.
func (e entry) words() []*splice.Node {
	var words []*splice.Node
	if e.command != nil && e.command.Kind == splice.Text {
		words = append(words, e.command)
	}
	if e.command != nil && e.args != nil {
		words = append(words, e.args.Items...)
	}
	return words
}
