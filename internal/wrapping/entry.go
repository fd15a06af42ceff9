// SPDX-License-Identifier: Apache-2.0

package wrapping

import (
	"cmp"

	"github.com/mcpscope/mcpscope/internal/splice"
)

// entry is where the command of a server is.
type entry struct {
	owner   *splice.Node // the map that has the command
	key     string       // under which
	command *splice.Node // a text, or a list that has the arguments too
	args    *splice.Node // nil where there are none
	inner   int          // of a wrapped one: where its own command is in the arguments
}

// find knows the three shapes: a text and a list beside it, one list, and both in a map of their own.
func find(n *splice.Node) entry {
	e := entry{owner: n}
	for _, key := range []string{"command", "cmd"} {
		if v := n.Get(key); v != nil {
			e.key, e.command = key, v
			break
		}
	}
	if e.command != nil && e.command.Kind == splice.Map && e.command.Get("path") != nil {
		e.owner, e.key, e.command = e.command, "path", e.command.Get("path")
	}
	if e.command != nil && e.command.Kind != splice.List {
		e.args = e.owner.Get("args")
	}
	return e
}

// obstacle is why the place can't be edited.
func (e entry) obstacle(n *splice.Node) string {
	if e.command == nil {
		return ""
	}
	why := cmp.Or(ambiguous(n.Repeated(), "command", "cmd"), ambiguous(e.owner.Repeated(), e.key, "args"))
	switch {
	case why != "":
		return why
	case e.command.Kind == splice.List:
		return obstacleIn(e.command)
	case e.command.Kind != splice.Text:
		return "its command is no text"
	case e.args == nil:
		return ""
	case e.args.Kind != splice.List:
		return "its args are no list"
	}
	return obstacleIn(e.args)
}

func obstacleIn(list *splice.Node) string {
	for _, item := range list.Items {
		if item.Kind != splice.Text && item.Kind != splice.Other {
			return "its args are more than texts"
		}
	}
	return ""
}

func (e entry) argv() []string {
	var argv []string
	switch {
	case e.command == nil:
		return nil
	case e.command.Kind == splice.Text:
		argv = append(argv, e.command.Text)
	}
	for _, item := range e.list().Items {
		argv = append(argv, item.Text)
	}
	return argv
}

// list is where the prefix goes.
func (e entry) list() *splice.Node {
	switch {
	case e.command.Kind == splice.List:
		return e.command
	case e.args != nil && e.args.Kind == splice.List:
		return e.args
	}
	return &splice.Node{}
}
