//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/inherit"
	"github.com/mcpscope/mcpscope/name"
	"github.com/mcpscope/mcpscope/scope"
)

const runUsage = `Usage: mcpscope run [flags] [--] COMMAND [ARG…]

Runs COMMAND, an MCP server, in a control group of its own. When it returns, or was
killed, nothing that COMMAND started is left. stdin, stdout and stderr are
COMMAND's own.

  --name NAME              what to call the server (default: made from COMMAND)
  --backend NAME           where the group comes from: auto (default), systemd-user,
                           systemd-system, delegated, cgroup or tree
  --require                refuse tree, which auto takes where no cgroup can be had
  --slice NAME             where systemd puts the scope (default mcp.slice)
  --eof-grace D            from the end of stdin to SIGTERM (default 1.2s)
  --term-grace D           from SIGTERM to SIGKILL (default 1s)
  --on-client-death auto|stop|ignore
                           what to do when the client dies: stop the server if stdin is a
                           pipe or socket that nobody else holds open (auto, the default),
                           whatever stdin is (stop), or nothing
  --replace                retire older servers of this name that the same client process
                           has started, as soon as this one runs
  --max-lifetime D         stop the server when it has run for D
  --idle-timeout D         stop it when it has used no CPU and read all input for D
  --memory-max SIZE        limit the memory of all that COMMAND starts: 512M, 1.5G, 10% of the
                           machine's, infinity (default)
  --memory-high SIZE       above that, let it wait and give memory back
  --swap-max SIZE          limit its swap space
  --cpu-max N              limit it to so many processors: 1.5, or 150%
  --cpu-weight N, --io-weight N
                           its share where others want the same: 1 to 10000 (default 100)
  --pids-max N             limit its processes and threads
  --oom-group              where that memory does not suffice the kernel kills all of it
                           (default); one process with --oom-group=false
  --set FILE=VALUE         any other file of its group, like memory.min=64M; several: again, or
                           with semicolons
  --limits strict|best-effort
                           start nothing where the host can't give a limit (default), or
                           go on with a note
  --stderr inherit|journal where the server's stderr goes (default inherit, the client's own);
                           mcpscope logs prints what the journal has
  --report PATH|fd:N       at the end, append one line of JSON: why it ended, what it
                           cost, who had to be killed
  --strict-config          start nothing if anything in a configuration file is wrong
  --wrapped LAYOUT         ignored: what 'mcpscope unwrap' is to know
  -q                       print nothing, not even why mcpscope itself failed
  -v                       print notes, e.g. who had to be killed, on stderr

D is a duration like 1.2s or 500ms, 0, or infinity. Each flag but --wrapped can be set in the
environment too (--eof-grace as MCPSCOPE_EOF_GRACE, -q as MCPSCOPE_QUIET=1, -v as
MCPSCOPE_VERBOSE=1, --require as MCPSCOPE_REQUIRE=1); these variables are not passed on. What
neither sets may be in mcpscope.toml: mcpscope help config. COMMAND finds the id of its group in
MCPSCOPE_ID.

The exit status is COMMAND's, or its signal; 125 if mcpscope itself failed, 126 if
COMMAND can't be executed, 127 if there is none.
`

// invocation is one `run`, before anything is done.
type invocation struct {
	flags   runFlags
	server  *scope.Server
	notes   []string // on the configuration
	verbose bool
	quiet   bool
	io      stdio
}

func runCommand(args []string, io stdio) int {
	v := &invocation{io: io}
	foreign := openDescriptors()
	operands, help, err := v.flags.parse(args)
	if help {
		fmt.Fprint(io.out, runUsage)
		return exitOK
	}
	v.quiet, v.verbose = v.flags.quiet, v.flags.verbose
	if err != nil {
		return v.fail(exitOwnFailure, "run: "+err.Error(), "mcpscope help run")
	}
	if len(operands) == 0 {
		return v.fail(exitOwnFailure, "run: no command given", "mcpscope run -- COMMAND [ARG…]")
	}
	if v.flags.name == "" {
		v.flags.name = name.Derive(operands)
	}
	if status := v.configure(); status != exitOK {
		return status
	}
	if status := v.prepare(operands, foreign); status != exitOK {
		return status
	}
	outcome, err := v.server.Run()
	return v.finish(outcome, err)
}

// prepare fills in the server; the status is exitOK if nothing is in its way.
func (v *invocation) prepare(operands []string, foreign []int) int {
	f := &v.flags
	file, err := scope.Lookup(operands[0], searchPath())
	if err != nil {
		return v.failCommand(operands, err)
	}
	limit, err := inherit.NoFile()
	if err != nil {
		return v.failRun(err)
	}
	report, err := v.openReport()
	if err != nil {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot open the report: %v", err), "--report takes a path or fd:N")
	}
	v.server = &scope.Server{
		Name: f.name, Path: file, Argv: operands, Env: serverEnvironment(), Policy: f.policy, Limits: f.limits,
		Backend: f.backend, Require: f.require, Replace: f.replace, Slice: f.slice, Notes: v.notes, Stderr: f.stderr, Report: report, Verbose: f.verbose, Executable: "/proc/self/exe", Foreign: foreign, NoFile: &limit,
		Weaker: v.tellWeaker,
	}
	return exitOK
}

func (v *invocation) tellWeaker(err error) {
	v.fail(exitOK, fmt.Sprintf("%q runs with the weaker backend tree: %v", v.flags.name, err), "mcpscope doctor; --require starts nothing instead")
}

func searchPath() string {
	if path, set := os.LookupEnv("PATH"); set {
		return path
	}
	return "/bin:/usr/bin" // as execvp(3)
}

// finish turns the outcome into the way in which we end.
func (v *invocation) finish(o scope.Outcome, err error) int {
	if v.verbose {
		for _, n := range o.Notes {
			fmt.Fprintf(v.io.err, "mcpscope: note: %s\n", oneLine(n))
		}
	}
	var command *scope.CommandError
	switch {
	case errors.As(err, &command):
		return v.failCommand(v.server.Argv, err)
	case err != nil:
		return v.failRun(err)
	case len(o.Stuck) > 0:
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot end all of %q: %s", v.server.Name, strings.Join(o.Stuck, ", ")),
			"the supervisor waits for it, and removes the group then")
	case !o.Known:
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot tell how %q ended", v.server.Name), "")
	}
	if o.Status.Signaled() {
		return endBySignal(o.Status.Signal())
	}
	return o.Status.ExitStatus()
}

func (v *invocation) failCommand(argv []string, err error) int {
	status, hint := exitNotRunnable, ""
	var command *scope.CommandError
	if errors.As(err, &command) && command.NotFound() {
		status = exitNotFound
		if strings.Contains(argv[0], " ") {
			hint = "a command and its arguments are separate words: mcpscope run -- " + argv[0]
		}
	}
	return v.fail(status, fmt.Sprintf("cannot run %q: %v", argv[0], reason(err)), hint)
}

// reason is the last error of the chain: the file's name has been said.
func reason(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

func (v *invocation) failRun(err error) int {
	return v.fail(exitOwnFailure, fmt.Sprintf("cannot contain %q: %v", v.flags.name, err), hint(v.flags.backend, err))
}

// fail prints one line, and one more if there is a hint.
func (v *invocation) fail(status int, text, hint string) int {
	if v.quiet {
		return status
	}
	text = "mcpscope: " + errorText(text) + "\n"
	if hint != "" {
		text += "mcpscope: hint: " + oneLine(hint) + "\n"
	}
	fmt.Fprint(v.io.err, text) // one write: several servers may share this stderr
	return status
}

// errorText: joined errors are a line each.
func errorText(s string) string { return oneLine(strings.ReplaceAll(s, "\n", ", ")) }

func errorLine(err error) string { return errorText(err.Error()) }
