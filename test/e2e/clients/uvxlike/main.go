// SPDX-License-Identifier: Apache-2.0

// Uvxlike runs a command like a package runner such as uvx that keeps its child's
// stdin open: it passes on data, but not EOF. A server behind it never learns that
// its client has exited, and as the runner waits for the server, both stay. The
// runner passes on SIGTERM, and only that ends such a pair.
//
//	uvxlike COMMAND [ARG...]
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: uvxlike COMMAND [ARG...]")
		os.Exit(2)
	}
	status, err := run(exec.Command(os.Args[1], os.Args[2:]...))
	if err != nil {
		fmt.Fprintf(os.Stderr, "uvxlike: %v\n", err)
	}
	os.Exit(status)
}

func run(cmd *exec.Cmd) (status int, err error) {
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 1, err
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	// The pipe's end is kept for good, whether the copy ends or fails.
	go func() { _, _ = io.Copy(stdin, os.Stdin) }()
	go func() {
		for sig := range terminated {
			_ = cmd.Process.Signal(sig) // it may have exited already
		}
	}()
	return exitStatus(cmd.Wait())
}

// exitStatus makes a shell's status of how the command ended.
func exitStatus(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 1, err
	}
	state := exit.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return 128 + int(state.Signal()), nil
	}
	return state.ExitStatus(), nil
}
