//go:build linux

// Command mcpscope runs an MCP server in a control group of its own, and leaves
// nothing of it behind.
//
// What goes where: asked-for output is on stdout. A mistake or a failure is one line
// "mcpscope: cannot …: …" on stderr, and at most one "mcpscope: hint: …". While a server runs,
// stdout is the server's, and stderr gets nothing unless mcpscope itself is broken
// or -v was given: clients take any output for a failure.
package main

import (
	"fmt"
	"io"
	"os"
)

// stdio is where a command reads and writes.
type stdio struct {
	out, err io.Writer
}

func main() {
	os.Exit(run(os.Args[1:], stdio{out: os.Stdout, err: os.Stderr}))
}

// command is one subcommand.
type command struct {
	name    string
	summary string
	usage   string // everything that `help NAME` prints
	hidden  bool
	run     func(args []string, io stdio) int
}

// commands is a function, because help and completion refer back to it.
func commands() []command {
	return []command{
		{name: "run", summary: "run a server in a group of its own", usage: runUsage, run: runCommand},
		{name: "sweep", summary: "end orphans: servers whose supervisor is gone", usage: sweepUsage, run: sweepCommand},
		{name: "version", summary: "print the version", usage: versionUsage, run: versionCommand},
		{name: "help", summary: "explain a command", usage: helpUsage, run: helpCommand},
		{name: "completion", summary: "print a completion script for bash, zsh or fish", usage: completionUsage, run: completionCommand},
		{name: "supervise", hidden: true, run: superviseCommand},
	}
}

func run(args []string, io stdio) int {
	if len(args) == 0 {
		fmt.Fprint(io.err, "mcpscope: no command given\nmcpscope: hint: mcpscope help\n")
		return exitUsage
	}
	switch args[0] {
	case "-h", "-help", "--help":
		return helpCommand(nil, io)
	case "-version", "--version":
		return versionCommand(nil, io)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], io)
		}
	}
	fmt.Fprintf(io.err, "mcpscope: unknown command %q\nmcpscope: hint: %s\n", args[0], unknownHint(args[0]))
	return exitUsage
}

// unknownHint guesses that who leaves out "run" meant it.
func unknownHint(word string) string {
	for _, c := range commands() {
		if !c.hidden && near(word, c.name) {
			return "mcpscope " + c.name
		}
	}
	return fmt.Sprintf("mcpscope run -- %s …, or mcpscope help", word)
}

// near tells whether b is a with one letter changed, missing, doubled or added.
func near(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i == len(a) || a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
