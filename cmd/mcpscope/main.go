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

	gw "github.com/mcpscope/mcpscope/gateway"
	"github.com/mcpscope/mcpscope/scope"
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
		{name: "gateway", summary: "run a gateway, and each server that it starts in a group of its own", usage: gatewayUsage, run: gatewayCommand},
		{name: "ls", summary: "list the servers that run", usage: lsUsage, run: lsCommand},
		{name: "top", summary: "watch the servers that run", usage: topUsage, run: topCommand},
		{name: "inspect", summary: "show all that is known of a server", usage: inspectUsage, run: inspectCommand},
		{name: "stop", summary: "end servers", usage: stopUsage, run: stopCommand},
		{name: "freeze", summary: "let servers rest", usage: freezeUsage, run: freezeCommand},
		{name: "thaw", summary: "let frozen servers go on", usage: thawUsage, run: thawCommand},
		{name: "set", summary: "limit what a server may use", usage: setUsage, run: setCommand},
		{name: "wait", summary: "wait until servers have ended", usage: waitUsage, run: waitCommand},
		{name: "events", summary: "print what has happened to servers", usage: eventsUsage, run: eventsCommand},
		{name: "logs", summary: "print what a server has written to stderr, by way of the journal", usage: logsUsage, run: logsCommand},
		{name: "metrics", summary: "print or serve figures as OpenMetrics", usage: metricsUsage, run: metricsCommand},
		{name: "sweep", summary: "end orphans: servers whose supervisor is gone", usage: sweepUsage, run: sweepCommand},
		{name: "status", summary: "list the servers of clients' configurations", usage: statusUsage, run: statusCommand},
		{name: "wrap", summary: "put mcpscope in front of them", usage: wrapUsage, run: wrapCommand},
		{name: "unwrap", summary: "take it away again", usage: unwrapUsage, run: unwrapCommand},
		{name: "doctor", summary: "say what this host offers, and what would be better", usage: doctorUsage, run: doctorCommand},
		{name: "config", summary: "show and check mcpscope.toml", usage: configUsage, run: configCommand},
		{name: "units", summary: "print or install units of systemd", usage: unitsUsage, run: unitsCommand},
		{name: "version", summary: "print the version", usage: versionUsage, run: versionCommand},
		{name: "help", summary: "explain a command", usage: helpUsage, run: helpCommand},
		{name: "completion", summary: "print a completion script for bash, zsh or fish", usage: completionUsage, run: completionCommand},
		{name: "names", hidden: true, run: namesCommand},
		{name: "supervise", hidden: true, run: superviseCommand},
		{name: scope.HeraldCommand, hidden: true, run: heraldCommand},
		{name: gw.WatchCommand, hidden: true, run: watchCommand},
		{name: "probe", hidden: true, run: probeCommand},
		{name: "escape", hidden: true, run: escapeCommand},
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
