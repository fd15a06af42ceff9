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
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/server/brain"
	"github.com/mcpscope/mcpscope/internal/server/launcher"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/server/report"
	"github.com/mcpscope/mcpscope/internal/settings"
)

// The kernel gives the orphans of a server to the first thread of their subreaper, and lists the children of
// each thread apart. So a launcher runs in the first thread, which only an init function can keep.
func init() {
	if len(os.Args) > 1 && os.Args[1] == "run" {
		runtime.LockOSThread()
	}
}

// invocation is one `run`, before anything is done.
type invocation struct {
	cli.Printer
	values *settings.Values
	server *launcher.Server
	notes  []string // on the configuration
}

func runCommand(args []string, io cli.Stdio) int {
	v := &invocation{Printer: cli.Printer{Stdio: io}, values: settings.Defaults()}
	foreign := cli.OpenDescriptors()
	operands, help, err := v.values.Parse(settings.Run, args)
	if help {
		fmt.Fprint(io.Out, settings.Help(settings.Run))
		return cli.ExitOK
	}
	v.Quiet, v.Verbose = v.values.Quiet, v.values.Verbose
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, "run: "+err.Error(), "mcpscope help run")
	}
	if len(operands) == 0 {
		return v.Fail(cli.ExitOwnFailure, "run: no command given", "mcpscope run -- COMMAND [ARG…]")
	}
	if v.values.Name == "" {
		v.values.Name = name.Derive(operands)
	}
	v.configure()
	if status := v.prepare(operands, foreign); status != cli.ExitOK {
		return status
	}
	outcome, err := v.server.Run()
	return v.finish(outcome, err)
}

// prepare fills in the server; the status is cli.ExitOK if nothing is in its way.
func (v *invocation) prepare(operands []string, foreign []int) int {
	f := v.values
	file, err := cli.Lookup(operands[0])
	if err != nil {
		return v.FailCommand(operands, err)
	}
	limit, err := cli.NoFile()
	if err != nil {
		return v.failRun(err, true)
	}
	report, err := v.openReport()
	if err != nil {
		text := fmt.Sprintf("cannot open the report: %v", err)
		return v.Fail(cli.ExitOwnFailure, text, "--report takes a path or fd:N")
	}
	env := settings.ServerEnvironment(environment())
	if !f.NoBrowser {
		env = withBrowser(env)
	}
	dir, _ := os.Getwd() // "", if it was removed
	v.server = &launcher.Server{
		Name: f.Name, Path: file, Argv: operands, Env: env, Policy: f.Policy, Limits: f.Limits,
		Backend: f.Backend, Require: f.Require, Replace: f.Replace, Notes: v.notes,
		Stderr: f.Stderr, Report: report, Verbose: f.Verbose, ClientName: protocol.ClientName(os.Getppid()),
		Origin:     protocol.OriginOf(dir, env),
		Executable: "/proc/self/exe", Foreign: foreign, NoFile: limit, Weaker: v.tellWeaker,
	}
	return cli.ExitOK
}

func (v *invocation) tellWeaker(err error) {
	text := fmt.Sprintf("%q runs with the weaker backend tree: %v", v.values.Name, err)
	v.Fail(cli.ExitOK, text, "mcpscope doctor; --require starts nothing instead")
}

// finish turns the outcome into the way in which we end.
func (v *invocation) finish(o brain.Outcome, err error) int {
	if v.Verbose {
		for _, n := range o.Notes {
			fmt.Fprintf(v.Err, "mcpscope: note: %s\n", cli.OneLine(n))
		}
	}
	var command *protocol.CommandError
	switch {
	case errors.As(err, &command):
		return v.FailCommand(v.server.Argv, err)
	case err != nil:
		return v.failRun(err, o.Reported)
	case len(o.Stuck) > 0:
		text := fmt.Sprintf("cannot stop all of %q: %s", v.server.Name, strings.Join(o.Stuck, ", "))
		return v.Fail(cli.ExitOwnFailure, text, "mcpscope waits for it, and removes the group then")
	case !o.Known:
		text := fmt.Sprintf("cannot find the exit status of %q", v.server.Name)
		return v.Fail(cli.ExitOwnFailure, text, "")
	}
	if o.Status.Signaled() {
		return cli.EndBySignal(o.Status.Signal())
	}
	return o.Status.ExitStatus()
}

func (v *invocation) failRun(err error, reported bool) int {
	hint := cli.Hint(v.values.Backend, err)
	if !reported {
		of := protocol.NewConfig()
		of.Name, of.Group.Backend, of.Started = v.server.Name, v.server.Backend, time.Now().UnixNano()
		r := report.New(of, "")
		r.Error, r.Hint = err.Error(), hint
		r.Write(v.server.Report)
	}
	return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot contain %q: %v", v.values.Name, err), hint)
}
