// SPDX-License-Identifier: Apache-2.0

// Package cli defines the output of the commands of both programs: streams, failures and exit statuses.
//
// Requested output goes to stdout. A mistake or a failure is one line "mcpscope: cannot …: …" on stderr, and
// at most one line "mcpscope: hint: …". While a server runs, stdout is the server's, and mcpscope writes to
// stderr only if it is broken itself or if -v was given: clients treat any output as a failure. Both programs
// print the name "mcpscope", which users know.
//
// The runner links this package, so it imports nothing that the runner does not need.
package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/remedy"
)

// Stdio contains the output streams of a command.
type Stdio struct {
	Out, Err io.Writer
}

// Cannot prints that a command failed, with the remedy of the error, and returns its status.
func (s Stdio) Cannot(goal string, err error) int {
	fmt.Fprintf(s.Err, "mcpscope: cannot %s: %s\n", goal, ErrorLine(err))
	s.Hint(remedy.Of(err))
	return ExitFailure
}

// Mistake prints a mistake in the arguments of a command, and returns its status.
func (s Stdio) Mistake(command, mistake string) int {
	fmt.Fprintf(s.Err, "mcpscope: %s: %s\n", command, OneLine(mistake))
	s.Hint("mcpscope help " + command)
	return ExitUsage
}

// CannotWithHint is Cannot with a remedy that the error does not have.
func (s Stdio) CannotWithHint(goal string, err error, hint string) int {
	return s.Cannot(goal, remedy.With(err, hint))
}

// Hint prints a remedy for the failure that was printed last, unless it is "".
func (s Stdio) Hint(text string) {
	if text != "" {
		fmt.Fprintf(s.Err, "mcpscope: hint: %s\n", OneLine(text))
	}
}

// Note prints what a person should know although the command has not failed.
func (s Stdio) Note(text string) { fmt.Fprintf(s.Err, "mcpscope: note: %s\n", OneLine(text)) }

// NoteError is Note for a part of the work that has failed, with the remedy of the error.
func (s Stdio) NoteError(text string, err error) {
	s.Note(text + ErrorLine(err))
	s.Hint(remedy.Of(err))
}

// Printer prints the failures of a command that executes another program with the same stderr.
type Printer struct {
	Stdio
	Quiet   bool // print nothing, not even failures
	Verbose bool // print notes
}

// Fail prints one line, and one more for a hint. It returns the status.
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

// FailCommand prints why the command of a server or gateway cannot be executed.
func (p *Printer) FailCommand(argv []string, err error) int {
	status := ExitNotRunnable
	hint := ""
	if errors.Is(err, unix.ENOENT) {
		status = ExitNotFound
		if strings.Contains(argv[0], " ") {
			hint = "a command and its arguments are separate words: mcpscope run -- " + argv[0]
		}
	}
	return p.Fail(status, CommandText(argv, err), hint)
}

// CommandText says that a command can't be executed, without its arguments.
func CommandText(argv []string, err error) string {
	return fmt.Sprintf("cannot run %q: %v", argv[0], reason(err))
}

// reason returns the last error of the chain; the name of the file is printed already.
func reason(err error) error {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return err
}

// ErrorText returns the text of an error on one line; joined errors have one line each.
func ErrorText(s string) string { return OneLine(strings.ReplaceAll(s, "\n", ", ")) }

// ErrorLine is ErrorText of an error.
func ErrorLine(err error) string { return ErrorText(err.Error()) }

// IsHelp reports whether an argument requests help.
func IsHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }
