// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/host"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/programs"
	"github.com/mcpscope/mcpscope/internal/server/backend"
	"github.com/mcpscope/mcpscope/internal/server/names"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

func gatewayCommand(args []string, io cli.Stdio) int {
	g := &gatewayRun{printer: cli.Printer{Stdio: io}, values: settings.Defaults()}
	operands, help, err := g.values.Parse(settings.Gateway, args)
	if help {
		fmt.Fprint(io.Out, settings.Help(settings.Gateway))
		return cli.ExitOK
	}
	if err != nil {
		return g.printer.Fail(cli.ExitOwnFailure, "gateway: "+err.Error(), "mcpscope help gateway")
	}
	if len(operands) == 0 {
		const hint = "mcpscope gateway -- COMMAND [ARG…]"
		return g.printer.Fail(cli.ExitOwnFailure, "gateway: no command given", hint)
	}
	if g.values.Gateway.Check { // by the larger program, which reads clients' files
		runtime.LockOSThread()
		own.Signals.Client.Restore()
		dispatch(append([]string{gateway.CheckCommand}, args...), io)
		return cli.ExitOwnFailure
	}
	return g.become(args[:len(args)-len(operands)], operands)
}

// gatewayRun is one `gateway`, before anything is done.
type gatewayRun struct {
	printer cli.Printer
	values  *settings.Values
}

// become returns only if it can't.
func (v *gatewayRun) become(flags, operands []string) int {
	file, err := programs.Lookup(operands[0])
	if err != nil {
		return v.printer.FailCommand(operands, err)
	}
	limit, err := readNoFile()
	if err != nil {
		return v.fail(operands, err)
	}
	options := v.options(flags)
	explain, err := openReport(v.values.Gateway.Explain)
	if err != nil {
		text := fmt.Sprintf("cannot explain: %v", err)
		return v.printer.Fail(cli.ExitOwnFailure, text, "--explain takes a path or fd:N")
	}
	g := gateway.Gateway{
		Name: agentName(operands),
		Command: gateway.Command{
			Path: file, Argv: operands, Env: environment(), NoFile: limit, Signals: own.Signals.Client,
		},
		Options: options, Explain: explain, Backend: v.values.Backend, Session: v.session(),
		Warn: gateway.Warnings{
			Uncontained: func(why error) { v.warnUncontained(operands[0], why) },
			Weaker:      func(why error) { v.noteWeaker(operands[0], why) },
			Inside:      func() { v.noteInside(operands[0]) },
			NoSession:   func(why error) { v.noteNoSession(operands[0], why) },
		},
	}
	if gateway.NeedsNoNewPrivs() && cli.OnTerminal(os.Stderr) {
		v.note("sudo and other setuid programs do not work below " + operands[0] + " (no_new_privs). " +
			"If it needs them, run its servers by mcpscope wrap instead")
	}
	err = g.Exec()
	if errno, ok := errors.AsType[unix.Errno](err); ok && errors.Is(err, gateway.ErrExec) {
		return v.printer.FailCommand(operands, &protocol.CommandError{Command: file, Errno: errno})
	}
	return v.fail(operands, err)
}

// agentName derives the name of a gateway from its command. mcpscope run may be in front of an agent to
// freeze it: then the name is derived from the program behind that.
func agentName(command []string) string {
	if name.IsRun(command) {
		behind, _, err := settings.Defaults().FromArguments(settings.Run, command[2:])
		if err == nil && len(behind) > 0 {
			return name.Derive(behind)
		}
	}
	return name.Derive(command)
}

// session is the one that the settings ask for: each of its limits does.
func (v *gatewayRun) session() gateway.Session {
	limits := v.values.Gateway.Session
	return gateway.Session{Wanted: v.values.Gateway.WantsSession || len(limits.Files) > 0, Limits: limits}
}

// options returns the gateway's options by its flags, the environment and the settings files.
func (v *gatewayRun) options(flags []string) gateway.Options {
	v.configure()
	of := v.values.Gateway
	return gateway.Options{
		Require: v.values.Require, Rules: gateway.Rules{Match: of.Match, Except: of.Except},
		Configs: of.Configs, Settings: flags,
	}
}

// configure reads what holds for the gateway itself, and prints mistakes in the files.
func (v *gatewayRun) configure() {
	c := settings.ReadFiles()
	for _, text := range configurationNotes(c.Problems) {
		v.note(text)
	}
	v.values.FromFile(c.ForBelowGateway(""))
}

// configureServer makes a server of that name, of a client's program. Files are read anew for each, as run
// does.
func configureServer(flags []string, server, client string) *gateway.Server {
	s := settings.Defaults()
	_, _, _ = s.Parse(settings.Gateway, flags) // as the gateway has done, in the same environment
	files := settings.ReadFiles()
	values := files.ForBelowGateway(server)
	files.AddClient(values, name.ClientOf(client))
	s.FromFile(values)
	wanted := &gateway.Server{
		Policy: s.Policy, Limits: s.Limits, MinFree: s.MinFree, Replace: s.Replace, Keep: s.Keep,
	}
	wanted.Places.Backend = s.Backend
	wanted.Output.Stderr = s.Output.Stderr
	return wanted
}

// warnUncontained is before the gateway runs: then its stderr is its own.
func (v *gatewayRun) warnUncontained(command string, why error) {
	v.note(cli.NotContained(command, why))
	v.printer.Hint(host.Fix(names.Auto, why))
}

// noteInside is before the gateway runs, too.
func (v *gatewayRun) noteInside(command string) {
	const text = "the servers of %q are in the group of the mcpscope run around it, and end with that; " +
		"they have no groups and limits of their own"
	v.note(fmt.Sprintf(text, command))
	v.printer.Hint("put the gateway outside: mcpscope gateway -- mcpscope run -- COMMAND")
}

// noteWeaker is before the gateway runs, too.
func (v *gatewayRun) noteWeaker(command string, why error) {
	const text = "the servers of %q are contained without cgroups, which is weaker: %v"
	v.note(fmt.Sprintf(text, command, why))
	v.printer.Hint(host.Fix(names.Auto, fmt.Errorf("%w: %w", backend.ErrNoBackend, why)))
}

// note prints on stderr, which is the log of a gateway.
func (v *gatewayRun) note(text string) {
	fmt.Fprintf(v.printer.Err, "mcpscope: note: %s\n", cli.ErrorText(text))
}

// noteNoSession is before the gateway runs, too.
func (v *gatewayRun) noteNoSession(command string, why error) {
	v.note(v.noSession(command, why))
	v.printer.Hint(host.Fix(names.Auto, why))
}

// noSession names the limits that do not apply.
func (v *gatewayRun) noSession(command string, why error) string {
	missing := ""
	for _, limit := range v.values.Gateway.Session.Files {
		missing += ", without " + limit.String()
	}
	return fmt.Sprintf("%q and its servers are in no session%s: %v", command, missing, why)
}

func (v *gatewayRun) fail(operands []string, err error) int {
	text := fmt.Sprintf("cannot contain the servers of %q: %v", operands[0], err)
	if _, ofSession := errors.AsType[*gateway.SessionError](err); ofSession {
		text = v.noSession(operands[0], err)
	}
	hint := host.Fix(names.Auto, err)
	if errors.Is(err, unix.EBUSY) { // of seccomp(2)
		hint = host.WithoutListener
	}
	return v.printer.Fail(cli.ExitOwnFailure, text, hint)
}

// watcherName is for ps and pgrep, at most 15 bytes.
const watcherName = "mcpscope-watch"

// watcherProcs is how many threads of a watcher may run Go code. One that waits in a call of the kernel
// counts for up to 10 ms, and the next one has to read the input of a program before that does.
const watcherProcs = 8

// watchCommand is the process beside a gateway, whose guard starts it.
func watchCommand(args []string, io cli.Stdio) int {
	if len(args) != 4 {
		fmt.Fprint(io.Err, "mcpscope: watch is started by mcpscope gateway alone\n")
		return cli.ExitUsage
	}
	_ = os.WriteFile("/proc/self/comm", []byte(watcherName), 0) // it was executed by a descriptor
	_, _ = readNoFile()                                         // it raises our own limit
	debug.SetGCPercent(20)                                      // it lives long, and needs little
	runtime.GOMAXPROCS(watcherProcs)
	return gateway.Watch(args, gateway.Watching{Configure: configureServer, FindTool: programs.FindTool})
}
