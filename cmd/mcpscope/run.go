// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/admission"
	"github.com/mcpscope/mcpscope/internal/server/guard"
	"github.com/mcpscope/mcpscope/internal/server/helper"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/policy"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// The kernel gives the orphans of a server to the first thread of their subreaper, and lists the children of
// each thread apart. So a launcher runs in the first thread, which only an init function can keep. A gateway
// has attributes of that thread which another one does not inherit, such as SCHED_RESET_ON_FORK.
func init() {
	if len(os.Args) <= 1 {
		return
	}
	switch os.Args[1] {
	case "run":
		runtime.LockOSThread()
		own.Signals.Release(own.Over() != nil)
	case "gateway":
		runtime.LockOSThread()
		own.Signals.Release(false)
	}
}

// own is this process as a launcher, from the server's start on. It is in the program's memory: there may be
// no heap.
var own guard.Launcher

// invocation is one `run`, before anything is done.
type invocation struct {
	cli.Printer
	values  *settings.Values
	command int // where the server's begins in our arguments
	server  *launcher.Server
	notes   []string // on the configuration
}

func runCommand(args []string, io cli.Stdio) int {
	if own.Over() != nil {
		return reportRun(own.Over(), args, io)
	}
	v := &invocation{Printer: cli.Printer{Stdio: io}, values: settings.Defaults()}
	operands, help, err := v.values.Parse(settings.Run, args)
	if help {
		fmt.Fprint(io.Out, settings.Help(settings.Run))
		return cli.ExitOK
	}
	v.Quiet = v.values.Output.Quiet
	v.Verbose = v.values.PrintsNotes()
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, "run: "+err.Error(), "mcpscope help run")
	}
	if len(operands) == 0 {
		return v.Fail(cli.ExitOwnFailure, "run: no command given", "mcpscope run -- COMMAND [ARG…]")
	}
	v.command = len(os.Args) - len(operands)
	if operands, err = launcher.CommandOn(own.Failed, operands); err != nil {
		return v.failRun(err, true)
	}
	if v.values.Name == "" {
		v.values.Name = name.Derive(operands)
	}
	v.configure()
	if status := v.prepare(operands); status != cli.ExitOK {
		return status
	}
	return v.failRun(v.server.Run(), false)
}

// prepare fills in the server; the status is cli.ExitOK if nothing is in its way.
func (v *invocation) prepare(operands []string) int {
	f := v.values
	if f.IsDefault("term-grace") && cli.OnTerminal(os.Stdin) {
		f.Policy.TermGrace = policy.TerminalTermGrace
	}
	file, err := programs.Lookup(operands[0])
	if err != nil {
		logFailure(v, cli.CommandText(operands, err))
		return v.FailCommand(operands, err)
	}
	limit, err := readNoFile()
	if err != nil {
		return v.failRun(err, true)
	}
	if on := own.Failed; on != nil && on.Plan.IsByMain { // main before that one has raised the limit
		limit = on.Plan.NoFile
	}
	tried, err := launcher.Tried(own.Failed)
	if err != nil {
		return v.failRun(err, true)
	}
	report, err := v.openReport()
	if err != nil {
		text := fmt.Sprintf("cannot open the report: %v", err)
		return v.Fail(cli.ExitOwnFailure, text, "--report takes a path or fd:N")
	}
	env, variables := settings.SplitEnvironment(environment())
	dir, _ := os.Getwd() // "", if it was removed
	v.server = &launcher.Server{
		Name: f.Name, Env: env, Settings: variables,
		Policy: f.Policy, Limits: f.Limits, MinFree: f.MinFree,
		Main: launcher.MainProcess{
			Path: file, Argv: operands, At: v.command, NoFile: limit, Signals: own.Signals.Client,
		},
		Replace: f.Replace, Keep: f.Keep,
		Places: launcher.Places{Backend: f.Backend, Require: f.Require, Tried: tried},
		Output: launcher.Output{
			Messages: launcher.Messages{
				Verbose: f.PrintsNotes(), Quiet: f.Output.Quiet, Weaker: v.tellWeaker, Waits: v.noteWait,
			},
			Notes: v.notes, Report: report, Stderr: f.Output.Stderr,
		},
		ClientName: protocol.ClientName(os.Getppid()),
		Origin:     protocol.OriginOf(dir, env),
		Executable: "/proc/self/exe",
	}
	return cli.ExitOK
}

func (v *invocation) tellWeaker(err error) {
	text := fmt.Sprintf("%q runs with the weaker backend tree: %v", v.values.Name, err)
	v.Fail(cli.ExitOK, text, "mcpscope doctor; --require starts nothing instead")
}

// reportRun reports the end of a server that this process has started, before the launcher's loop. Raw code
// leaves the command in our arguments.
func reportRun(ended *guard.Ended, args []string, io cli.Stdio) int {
	c, o, err := launcher.Report(ended)
	if c.Argv == nil {
		c.Argv, _, _ = settings.Defaults().Parse(settings.Run, args) // which raw code has read
	}
	p := cli.Printer{Stdio: io, Quiet: c.Output.Quiet, Verbose: c.Output.Verbose}
	return printEnd(&p, c, o, err)
}

// printEnd returns the exit status: the server's own, if the server has run and nothing of it is left.
func printEnd(p *cli.Printer, c *protocol.Config, o helper.Outcome, err error) int {
	if p.Verbose {
		fmt.Fprint(p.Err, o.Notes)
	}
	var command *protocol.CommandError
	switch {
	case errors.As(err, &command):
		report.LogFailure(c, cli.CommandText(c.Argv, err))
		return p.FailCommand(c.Argv, err)
	case err != nil:
		report.LogFailure(c, cli.ErrorLine(err))
		hint := host.Fix(c.Group.Backend, err)
		if !o.Reported {
			writeFailure(c.Facts.Name, c.Group.Backend, c.Output.Report, err, hint)
		}
		return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot contain %q: %v", c.Facts.Name, err), hint)
	case len(o.Stuck) > 0:
		text := fmt.Sprintf("cannot stop all of %q: %s", c.Facts.Name, strings.Join(o.Stuck, ", "))
		return p.Fail(cli.ExitOwnFailure, text, "mcpscope waits for it, and removes the group then")
	case !o.Known:
		text := fmt.Sprintf("cannot find the exit status of %q", c.Facts.Name)
		return p.Fail(cli.ExitOwnFailure, text, "")
	}
	if o.Status.Signaled() {
		guard.ExitBy(uintptr(o.Status.Signal()))
	}
	return o.Status.ExitStatus()
}

func (v *invocation) failRun(err error, reported bool) int {
	if admission.Refused(err) {
		return v.failAdmission(err)
	}
	logFailure(v, err.Error())
	hint := host.Fix(v.values.Backend, err)
	if !reported {
		writeFailure(v.server.Name, v.server.Places.Backend, v.server.Output.Report, err, hint)
	}
	return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot contain %q: %v", v.values.Name, err), hint)
}

// logFailure is before there is a server.
func logFailure(v *invocation, text string) {
	// the journal stores the command line of a process that writes to it: arguments may be secrets
	launcher.HideArguments(v.command + 1)
	c := protocol.NewConfig()
	c.Group.ID = names.NewID()
	c.Facts.Name = v.values.Name
	c.Facts.Client.PID = os.Getppid()
	c.Facts.Client.Name = protocol.ClientName(c.Facts.Client.PID)
	dir, _ := os.Getwd() // "", if it was removed
	c.Facts.Origin = protocol.OriginOf(dir, environment())
	report.LogFailure(c, cli.ErrorText(text))
}

// writeFailure reports a server that could not be started.
func writeFailure(of string, b names.Backend, to int, err error, hint string) {
	c := protocol.NewConfig()
	c.Facts.Name = of
	c.Group.Backend = b
	c.Facts.Started = time.Now().UnixNano()
	r := report.New(c, "")
	r.Error = err.Error()
	r.Hint = hint
	r.Write(to)
}
