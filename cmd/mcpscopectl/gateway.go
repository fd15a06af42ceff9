// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	gw "github.com/mcpscope/mcpscope/internal/gateway"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/name"
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

// serverSettings are those of a gateway's command line and environment, as its watcher gets them.
type serverSettings struct {
	*settings.Values
	Fixed []string // names of those that were given: no file changes them
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
	options := gw.Options{Rules: gw.Rules{Match: v.Match, Except: v.Except}}
	if options.Settings, err = json.Marshal(serverSettings{v.Values, v.fixed()}); err != nil {
		return v.fail(operands, err)
	}
	v.configure()
	if options.Configured, err = v.configured(); err != nil {
		const hint = "mcpscope wrap --list lists what is found"
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot read configurations: %v", err), hint)
	}
	runner, err := cli.OpenRunner()
	if err != nil {
		return v.fail(operands, err)
	}
	explain, err := cli.OpenReport(v.Explain)
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot explain: %v", err), "--explain takes a path or fd:N")
	}
	env, err := proc.Environ()
	if err != nil {
		env = os.Environ() // without duplicates; and without /proc nothing works anyway
	}
	g := gw.Gateway{
		Name: name.Derive(operands), Path: file, Argv: operands, Env: env, NoFile: limit, Options: options,
		Require: v.Require, Explain: explain, Executable: "/proc/self/exe", Runner: runner, Note: v.note,
	}
	err = g.Exec()
	if errno, ok := errors.AsType[unix.Errno](err); ok && errors.Is(err, gw.ErrExec) {
		return v.FailCommand(operands, &protocol.CommandError{Command: file, Errno: errno})
	}
	return v.fail(operands, err)
}

func (v *gatewayRun) fixed() (names []string) {
	for _, r := range settings.Rows(settings.Gateway) {
		if v.Given(r.Name) {
			names = append(names, r.Name)
		}
	}
	return names
}

// configure takes from mcpscope.toml what holds for the gateway itself, and prints what is wrong in the file.
func (v *gatewayRun) configure() {
	const most = 5 // notes, as many as a report of run's has
	c := settings.ReadFiles()
	for i, p := range c.Problems {
		if i == most {
			v.note("configuration: more is wrong: mcpscope doctor")
			break
		}
		v.note("configuration: " + cli.ErrorLine(p))
	}
	v.FromFile(ofGateway(c.For("")))
}

// ofGateway leaves out what only run has, and a backend that can't take in a server of a gateway.
func ofGateway(of map[string]settings.FileValue) map[string]settings.FileValue {
	rows := settings.Rows(settings.Gateway)
	maps.DeleteFunc(of, func(key string, value settings.FileValue) bool {
		known := slices.ContainsFunc(rows, func(r *settings.Row) bool { return r.Name == key })
		return !known || key == "backend" && value.Text == string(protocol.Tree)
	})
	return of
}

// configureServer makes a server of that name. Files are read anew for each, as run does.
func configureServer(text []byte, name string) *gw.Server {
	s := serverSettings{Values: settings.Defaults()}
	_ = json.Unmarshal(text, &s) // what become has encoded
	of := ofGateway(settings.ReadFiles().For(name))
	for _, key := range s.Fixed {
		delete(of, key)
	}
	s.FromFile(of)
	return &gw.Server{
		Policy: s.Policy, Limits: s.Limits, Backend: s.Backend, Replace: s.Replace, Slice: s.Slice, Stderr: s.Stderr,
	}
}

// configured lists the servers in configurations. A file that was not named with --config may be broken.
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
				one := gw.Configured{Name: s.Label(), File: c.Where(), Argv: s.Argv, Listens: s.Listens}
				servers = append(servers, one)
			}
		}
	}
	return servers, nil
}

// note writes to stderr, which is a log of the gateway.
func (v *gatewayRun) note(text string) {
	fmt.Fprintf(v.Err, "mcpscope: note: %s\n", cli.ErrorText(text))
}

func (v *gatewayRun) fail(operands []string, err error) int {
	return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot contain the servers of %q: %v", operands[0], err), "")
}

// watcherName is the name in ps and pgrep, at most 15 bytes.
const watcherName = "mcpscope-watch"

// watchCommand is the process beside a gateway; mcpscope gateway starts it.
func watchCommand(args []string, io cli.Stdio) int {
	if len(args) == 4 && args[0] == gw.DetachArgument {
		return gw.Detach(args[1:])
	}
	foreign := cli.OpenDescriptors()
	if len(args) != 3 {
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
