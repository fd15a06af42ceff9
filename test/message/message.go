// SPDX-License-Identifier: Apache-2.0

// Package message checks what a command tells a person: its shape for every message, and of its words only those
// that the person needs, so that a sentence can be reworded without a change of its test.
package message

import (
	"fmt"
	"strings"
)

// A Message is a line on stderr, and at most one hint, with the status of its command.
type Message struct {
	Status int
	Begin  string // what kind of message it is: "cannot ", "note: ", or a command with a mistake ("ls: ")
	Word   string // what it is about: a name, a path, a flag
	Hint   string // the command to paste, whole; "" for a message without a hint
}

const (
	begin     = "mcpscope: "
	beginHint = "\n" + begin + "hint: "
)

// Problem returns how the output of a command differs from the message, or "".
func (m Message) Problem(status int, stdout, stderr string) string {
	line, hint, hasHint := strings.Cut(strings.TrimSuffix(stderr, "\n"), beginHint)
	text, hasBegin := strings.CutPrefix(line, begin+m.Begin)
	problem := ""
	switch {
	case m.Word == "":
		problem = "the test has no key word"
	case status != m.Status:
		problem = fmt.Sprintf("the status is not %d", m.Status)
	case stdout != "":
		problem = "something is on stdout"
	case !strings.HasSuffix(stderr, "\n") || strings.Contains(line+hint, "\n"):
		problem = "it is not one line with at most one hint"
	case !hasBegin:
		problem = fmt.Sprintf("it does not begin with %q", begin+m.Begin)
	case !strings.Contains(text, m.Word):
		problem = fmt.Sprintf("there is no %q", m.Word)
	case hasHint != (m.Hint != "") || !hasCommand(hint, m.Hint):
		problem = fmt.Sprintf("the hint is not %q", m.Hint)
	default:
		return ""
	}
	return fmt.Sprintf("%s: status %d\n%s%s", problem, status, stdout, stderr)
}

// hasCommand reports whether a hint has a command with all its arguments, and no argument more: it is pasted.
func hasCommand(hint, command string) bool {
	before, after, found := strings.Cut(hint, command)
	return found && (before == "" || strings.HasSuffix(before, " ") || strings.HasSuffix(before, "(")) &&
		(after == "" || strings.ContainsAny(after[:1], ",;:)"))
}
