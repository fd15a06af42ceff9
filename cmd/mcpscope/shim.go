//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	gw "github.com/mcpscope/mcpscope/gateway"
	"github.com/mcpscope/mcpscope/scope"
)

// shimCommand is what a script in a gateway's directory of shims is executed by: its path, and the arguments
// that it got. It becomes the program of that name, or the launcher of a server.
func shimCommand(args []string, io stdio) int {
	foreign := openDescriptors()
	if len(args) == 0 {
		fmt.Fprint(io.err, "mcpscope: shim is started by a gateway's children alone\n")
		return exitUsage
	}
	v := &invocation{io: io}
	operands := append([]string{path.Base(args[0])}, args[1:]...)
	shims, err := gw.OpenShims(args[0])
	if err != nil {
		return v.fail(exitOwnFailure, fmt.Sprintf("cannot stand before %q: %v", operands[0], err), "")
	}
	if operands[0], err = shims.Real(operands[0], searchPath()); err != nil {
		return v.failCommand(operands, err)
	}
	if !shims.Serves(operands) {
		err := syscall.Exec(operands[0], operands, os.Environ())
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.ENOEXEC
		}
		return v.failCommand(operands, &scope.CommandError{Command: operands[0], Errno: errno})
	}
	if _, _, err := v.flags.parse(slices.Concat([]string{"--"}, operands)); err != nil {
		return v.failRun(err)
	}
	f := &v.flags
	f.name, f.policy, f.limits, f.backend, f.slice, f.replace = shims.Name(operands), shims.Policy, shims.Limits, shims.Backend, shims.Slice, shims.Replace
	if status := v.prepare(operands, foreign); status != exitOK {
		return status
	}
	outcome, err := v.server.Run()
	return v.finish(outcome, err)
}
