// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/name"
	"github.com/mcpscope/mcpscope/internal/proc"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
	"github.com/mcpscope/mcpscope/internal/settings"
)

func gatewayCommand(args []string, io cli.Stdio) int {
	g := &gatewayRun{Printer: cli.Printer{Stdio: io}, Values: settings.Defaults()}
	operands, help, err := g.Parse(settings.Gateway, args)
	if help {
		fmt.Fprint(io.Out, settings.Help(settings.Gateway))
		return cli.ExitOK
	}
	g.Printer.Quiet, g.Printer.Verbose = g.Values.Quiet, g.Values.Verbose
	if err == nil && g.Backend == protocol.Tree { // its servers run already when they are found
		err = errors.New("a tree can't take in a process that runs already: --backend auto")
	}
	if err != nil {
		return g.Fail(cli.ExitOwnFailure, "gateway: "+err.Error(), "mcpscope help gateway")
	}
	if len(operands) == 0 {
		return g.Fail(cli.ExitOwnFailure, "gateway: no command given", "mcpscope gateway -- COMMAND [ARG…]")
	}
	return g.become(operands)
}

// gatewayRun is one `gateway`, before anything is done.
type gatewayRun struct {
	cli.Printer
	*settings.Values
}

// become returns only if it can't.
func (v *gatewayRun) become(operands []string) int {
	file, err := protocol.Lookup(operands[0], cli.SearchPath())
	if err != nil {
		return v.FailCommand(operands, err)
	}
	limit, err := cli.NoFile()
	if err != nil {
		return v.fail(operands, err)
	}
	servers := gw.Servers{
		Rules:  gw.Rules{Match: v.Match, Except: v.Except},
		Policy: v.Policy, Limits: v.Limits, Backend: v.Backend, Slice: v.Slice, Replace: v.Replace, Stderr: v.Stderr, Given: v.given(),
	}
	servers.Limits.Files = slices.Clone(v.Limits.Files)
	v.configure() // what is tried at the start; each server's own is read when there is one
	if servers.Rules.Configured, err = v.configured(); err != nil {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot read configurations: %v", err), "mcpscope wrap --list lists what is found")
	}
	runner, err := cli.OpenRunner()
	if err != nil {
		return v.fail(operands, err)
	}
	explain, err := cli.OpenReport(v.Explain)
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot explain: %v", err), "--explain takes a path or fd:N")
	}
	if why, hint := tryLimits(v.Values); why != "" {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot limit the servers of %q: %s", operands[0], why), hint)
	}
	env, err := proc.Environ()
	if err != nil {
		env = os.Environ() // without duplicates; and without /proc nothing works anyway
	}
	g := gw.Gateway{
		Name: name.Derive(operands), Path: file, Argv: operands, Env: env, NoFile: limit, Servers: servers,
		Require: v.Require, Explain: explain, Executable: "/proc/self/exe", Runner: runner, Note: v.note,
	}
	err = g.Exec()
	if errno, ok := errors.AsType[unix.Errno](err); ok && errors.Is(err, gw.ErrExec) {
		return v.FailCommand(operands, &protocol.CommandError{Command: file, Errno: errno})
	}
	return v.fail(operands, err)
}

// configured reads what servers there are. A file that nobody has named may be anything.
func (v *gatewayRun) configured() ([]gw.Configured, error) {
	all, err := clientconfig.Configurations(v.Configs)
	if err != nil {
		return nil, err
	}
	var servers []gw.Configured
	for _, c := range all {
		if c.Err != nil && len(v.Configs) > 0 {
			return nil, fmt.Errorf("%s: %w", c.Where(), c.Err)
		}
		for _, s := range c.Servers {
			if s.State != wrapping.Wrapped && len(s.Argv) > 0 {
				servers = append(servers, gw.Configured{Name: s.Label(), File: c.Where(), Argv: s.Argv, Listens: s.Listens})
			}
		}
	}
	return servers, nil
}

// note is no output of a protocol: what a gateway has on stderr is a log.
func (v *gatewayRun) note(text string) {
	if !v.Printer.Quiet {
		fmt.Fprintf(v.Err, "mcpscope: note: %s\n", cli.ErrorText(text))
	}
}

func (v *gatewayRun) fail(operands []string, err error) int {
	return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot contain the servers of %q: %v", operands[0], err), "")
}

// watcherName is what ps and pgrep show, at most 15 bytes.
const watcherName = "mcpscope-watch"

// watchCommand is the process beside a gateway; mcpscope gateway starts it.
func watchCommand(args []string, io cli.Stdio) int {
	foreign := cli.OpenDescriptors()
	if len(args) != 2 {
		fmt.Fprint(io.Err, "mcpscope: watch is started by mcpscope gateway alone\n")
		return cli.ExitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil {
		return cli.ExitUsage
	}
	_ = os.WriteFile("/proc/self/comm", []byte(watcherName), 0) // for people: it would be "exe"
	_, _ = cli.NoFile()                                         // it raises our own limit; the gateway has its own
	return gw.Watch(memory, foreign, configureServer)
}
