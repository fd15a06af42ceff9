//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	gw "github.com/mcpscope/mcpscope/gateway"
	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/settings"
	"github.com/mcpscope/mcpscope/scope"
)

// shimCommand is what a script in a gateway's directory of shims is executed by: its path, and the arguments
// that it got. It becomes the program of that name, or the launcher of a server.
func shimCommand(args []string, io cli.Stdio) int {
	foreign := cli.OpenDescriptors()
	if len(args) == 0 {
		fmt.Fprint(io.Err, "mcpscope: shim is started by a gateway's children alone\n")
		return cli.ExitUsage
	}
	v := &invocation{Printer: cli.Printer{Stdio: io}, values: settings.Defaults()}
	operands := append([]string{path.Base(args[0])}, args[1:]...)
	shims, err := gw.OpenShims(args[0])
	if err != nil {
		return v.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot stand before %q: %v", operands[0], err), "")
	}
	if operands[0], err = shims.Real(operands[0], cli.SearchPath()); err != nil {
		return v.FailCommand(operands, err)
	}
	if !shims.Serves(operands) {
		err := syscall.Exec(operands[0], operands, os.Environ())
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENOEXEC
		}
		return v.FailCommand(operands, &scope.CommandError{Command: operands[0], Errno: errno})
	}
	f := v.values
	if err := f.FromEnvironment(settings.Run); err != nil {
		return v.failRun(err)
	}
	f.Name, f.Policy, f.Limits, f.Backend, f.Slice, f.Replace = shims.Name(operands), shims.Policy, shims.Limits, shims.Backend, shims.Slice, shims.Replace
	if status := v.prepare(operands, foreign); status != cli.ExitOK {
		return status
	}
	outcome, err := v.server.Run()
	return v.finish(outcome, err)
}
