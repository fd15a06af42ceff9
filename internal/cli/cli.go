// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package cli is what the commands of both programs have in common: where they print, how a failure
// reads, and with which status they end.
//
// Asked-for output goes to stdout. A mistake or a failure is one line "mcpscope: cannot …: …" on
// stderr, and at most one "mcpscope: hint: …". While a server runs, stdout is the server's, and
// stderr gets nothing unless mcpscope itself is broken or -v was given: clients take any output for
// a failure. Both programs print as "mcpscope", which is the name that users know.
//
// The package is linked into the runner: it imports nothing that the runner does not need.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"golang.org/x/sys/unix"
)

// Stdio is where a command prints.
type Stdio struct {
	Out, Err io.Writer
}

// Cannot says that a command failed, and returns its status.
func (s Stdio) Cannot(goal string, err error) int {
	fmt.Fprintf(s.Err, "mcpscope: cannot %s: %s\n", goal, ErrorLine(err))
	return ExitFailure
}

// Mistake says what is wrong with the arguments of a command, and returns its status.
func (s Stdio) Mistake(command, what string) int {
	fmt.Fprintf(s.Err, "mcpscope: %s: %s\nmcpscope: hint: mcpscope help %s\n", command, OneLine(what), command)
	return ExitUsage
}

// CannotWithHint is Cannot with what to do about it, if that is not "".
func (s Stdio) CannotWithHint(goal string, err error, hint string) int {
	status := s.Cannot(goal, err)
	s.Hint(hint)
	return status
}

// Hint adds what to do about the failure that was printed last.
func (s Stdio) Hint(text string) {
	if text != "" {
		fmt.Fprintf(s.Err, "mcpscope: hint: %s\n", OneLine(text))
	}
}

// Printer prints the failures of a command that stands in front of another one. Its stderr is the
// other's.
type Printer struct {
	Stdio
	Quiet   bool // print nothing, not even failures
	Verbose bool // print notes
}

// Fail prints one line, and one more if there is a hint. It returns the status.
func (p *Printer) Fail(status int, text, hint string) int {
	if p.Quiet {
		return status
	}
	text = "mcpscope: " + ErrorText(text) + "\n"
	if hint != "" {
		text += "mcpscope: hint: " + OneLine(hint) + "\n"
	}
	fmt.Fprint(p.Err, text) // one write: several servers may share this stderr
	return status
}

// FailCommand says why the command of a server or gateway can't be executed.
func (p *Printer) FailCommand(argv []string, err error) int {
	status, hint := ExitNotRunnable, ""
	if command, ok := errors.AsType[*protocol.CommandError](err); ok && command.NotFound() {
		status = ExitNotFound
		if strings.Contains(argv[0], " ") {
			hint = "a command and its arguments are separate words: mcpscope run -- " + argv[0]
		}
	}
	return p.Fail(status, fmt.Sprintf("cannot run %q: %v", argv[0], reason(err)), hint)
}

// reason is the last error of the chain: the file's name has been printed.
func reason(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

// SearchPath is where a command without a slash is looked for, as execvp(3) does.
func SearchPath() string {
	if path, set := os.LookupEnv("PATH"); set {
		return path
	}
	return "/bin:/usr/bin"
}

// ErrorText is an error's text on one line; joined errors are a line each.
func ErrorText(s string) string { return OneLine(strings.ReplaceAll(s, "\n", ", ")) }

// ErrorLine is ErrorText of an error.
func ErrorLine(err error) string { return ErrorText(err.Error()) }

// IsHelp tells whether an argument asks for help.
func IsHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }
