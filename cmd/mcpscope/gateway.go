//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	gw "github.com/mcpscope/mcpscope/gateway"
	"github.com/mcpscope/mcpscope/inherit"
	"github.com/mcpscope/mcpscope/name"
	"github.com/mcpscope/mcpscope/proc"
	"github.com/mcpscope/mcpscope/scope"
	"github.com/mcpscope/mcpscope/wrapping"
)

const gatewayUsage = `Usage: mcpscope gateway [flags] [--] COMMAND [ARG…]

Becomes COMMAND, a gateway: the same process, with the same pid, parent and unit. Each MCP
server that is started below it, by itself or by what it starts, is put into a group of its own,
and ended as with mcpscope run: with all that it started, also when the gateway is killed. What
else is started is left alone. A server is what is spoken to in MCP on its standard input
(docs/gateway.md).

  --config CLIENT|FILE     the servers of this configuration are known before they run; may be
                           given more than once. Without it those of all clients found here
                           (mcpscope status lists them)
  --match GLOB             what matches is a server, too: by the command's base name or its line,
                           with or without the directory; may be given more than once
  --except GLOB            what matches is no server
  --recognize auto|never   never: what is neither configured nor matches is no server
  --explain PATH|fd:N      append a line for each child that could be a server: why it was
                           taken, or left
  --check[=DURATION]       run the gateway for a moment (10s), list what was taken and what was
                           left, and end it with all that it started
  --contain-gateway        end with the gateway what else it has started, too
  --no-new-privs auto|never
                           without root, set no_new_privs (default auto), under which sudo
                           does not work below the gateway; never: contain nothing then
  --require                start nothing where servers can't be contained
  --backend, --slice, --eof-grace, --term-grace, --replace, --max-lifetime, --idle-timeout
                           as with mcpscope run, for each server
  --memory-max, --memory-high, --swap-max, --cpu-max, --cpu-weight, --io-weight, --pids-max,
  --oom-group, --set, --limits
                           as with mcpscope run, for each server by itself
  -q                       print nothing, not even why servers are not contained
  -v                       print notes on stderr

The exit status is COMMAND's; 125 if mcpscope itself failed, 126 if COMMAND can't be executed,
127 if there is none.
`

func gatewayCommand(args []string, io stdio) int {
	v := &invocation{io: io}
	var f gatewayFlags
	operands, help, err := f.parse(args)
	if help {
		fmt.Fprint(io.out, gatewayUsage)
		return exitOK
	}
	v.quiet, v.verbose = f.quiet, f.verbose
	if err != nil {
		return v.fail(exitOwnFailure, "gateway: "+err.Error(), "mcpscope help gateway")
	}
	if len(operands) == 0 {
		return v.fail(exitOwnFailure, "gateway: no command given", "mcpscope gateway -- COMMAND [ARG…]")
	}
	if f.check > 0 {
		return v.checkGateway(&f, args)
	}
	return v.becomeGateway(&f, operands)
}

// becomeGateway returns only if it can't.
func (v *invocation) becomeGateway(f *gatewayFlags, operands []string) int {
	file, err := scope.Lookup(operands[0], searchPath())
	if err != nil {
		return v.failCommand(operands, err)
	}
	limit, err := inherit.NoFile()
	if err != nil {
		return v.failGateway(operands, err)
	}
	if err := v.knowServers(f); err != nil {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot read configurations: %v", err), "mcpscope status lists what is found")
	}
	explain, err := openReport(f.explain)
	if err != nil {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot explain: %v", err), "--explain takes a path or fd:N")
	}
	if why, hint := f.tryLimits(); why != "" {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot limit the servers of %q: %s", operands[0], why), hint)
	}
	env, err := proc.Environ()
	if err != nil {
		env = os.Environ() // without duplicates; and without /proc nothing works anyway
	}
	g := gw.Gateway{
		Name: name.Derive(operands), Path: file, Argv: operands, Env: env, NoFile: limit,
		Servers: gw.Servers{Rules: f.rules, Policy: f.policy, Limits: f.limits, Backend: f.backend, Slice: f.slice, Replace: f.replace},
		Contain: f.contain, Require: f.require,
		KeepPrivileges: f.keepPrivileges, Explain: explain, Executable: "/proc/self/exe", Note: v.gatewayNote,
	}
	err = g.Exec()
	var errno unix.Errno
	if errors.Is(err, gw.ErrExec) && errors.As(err, &errno) {
		return v.failCommand(operands, &scope.CommandError{Command: file, Errno: errno})
	}
	return v.failGateway(operands, err)
}

// knowServers reads what servers there are. A file that nobody has named may be anything.
func (v *invocation) knowServers(f *gatewayFlags) error {
	if len(f.rules.Match) > 0 && len(f.configs) == 0 {
		return nil
	}
	all, err := configurations(f.configs)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.err != nil && len(f.configs) > 0 {
			return fmt.Errorf("%s: %w", c.where(), c.err)
		}
		for _, s := range c.servers {
			if s.State != wrapping.Wrapped && len(s.Argv) > 0 {
				f.rules.Configured = append(f.rules.Configured, gw.Configured{Name: s.Label(), File: c.where(), Argv: s.Argv, Listens: s.Listens})
			}
		}
	}
	return nil
}

// gatewayNote is no output of a protocol: what a gateway has on stderr is a log.
func (v *invocation) gatewayNote(text string) {
	if !v.quiet {
		fmt.Fprintf(v.io.err, "mcpscope: note: %s\n", errorText(text))
	}
}

func (v *invocation) failGateway(operands []string, err error) int {
	return v.fail(exitOwnFailure, fmt.Sprintf("cannot contain the servers of %q: %v", operands[0], err), "")
}

// watchCommand is the process beside a gateway; mcpscope gateway starts it.
func watchCommand(args []string, io stdio) int {
	foreign := openDescriptors()
	if len(args) != 2 {
		fmt.Fprint(io.err, "mcpscope: watch is started by mcpscope gateway alone\n")
		return exitUsage
	}
	memory, err := strconv.Atoi(args[0])
	if err != nil {
		return exitUsage
	}
	_, _ = inherit.NoFile() // it raises our own limit; the gateway has its own
	return gw.Watch(memory, foreign)
}
