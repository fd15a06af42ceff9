//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
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
	if len(args) == 0 {
		fmt.Fprint(io.Err, "mcpscope: shim is started by a gateway's children alone\n")
		return cli.ExitUsage
	}
	p := cli.Printer{Stdio: io}
	operands := append([]string{path.Base(args[0])}, args[1:]...)
	shims, err := gw.OpenShims(args[0])
	if err != nil {
		return p.Fail(cli.ExitOwnFailure, fmt.Sprintf("cannot stand before %q: %v", operands[0], err), "")
	}
	if operands[0], err = shims.Real(operands[0], cli.SearchPath()); err != nil {
		return p.FailCommand(operands, err)
	}
	if shims.Serves(operands) {
		return runRunner(append(runFlags(shims, operands), operands...), io)
	}
	err = syscall.Exec(operands[0], operands, os.Environ())
	var errno unix.Errno
	if !errors.As(err, &errno) {
		errno = unix.ENOEXEC
	}
	return p.FailCommand(operands, &scope.CommandError{Command: operands[0], Errno: errno})
}

// runFlags say to run what the gateway was told.
func runFlags(shims *gw.Shims, operands []string) []string {
	flags := []string{
		"--name", shims.Name(operands), "--backend", string(shims.Backend), "--slice", shims.Slice,
		fmt.Sprintf("--replace=%v", shims.Replace), fmt.Sprintf("--oom-group=%v", shims.Limits.OOMGroup),
	}
	for field := range strings.FieldsSeq(shims.Policy.String()) {
		flags = append(flags, "--"+field)
	}
	for _, l := range shims.Limits.Files {
		flags = append(flags, "--set", l.String())
	}
	if shims.Limits.BestEffort {
		flags = append(flags, "--limits="+settings.LimitsLoose)
	}
	return append(flags, "--")
}
