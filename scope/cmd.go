// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package scope runs MCP servers under mcpscope from a Go program. Cmd has the shape of os/exec's: it starts
// "mcpscope run" as a child process, which puts the server into a group of its own. When Wait has returned,
// or the calling program was killed and the grace periods are over, nothing that the server started is left.
// A program may run any number of servers at once; the package changes neither its signals, descriptors nor
// children.
//
// It needs Linux 5.14, and the program mcpscope. "mcpscope ls --json" lists the servers of the calling user,
// and "mcpscope stop" and "mcpscope sweep" act on them, however they were started.
package scope

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"golang.org/x/sys/unix"
)

// Cmd is a server that is being prepared or runs: Command makes it, and it can't be reused after Start. Env,
// Dir, Stdin, Stdout, Stderr, ExtraFiles and the pipes are the server's. Process and ProcessState are
// mcpscope's.
//
// Process.Kill kills the server at once, without a grace period; a context that is done leaves it one. Stderr
// also has mcpscope's own failures.
type Cmd struct {
	// Path is the program mcpscope, which Command finds in PATH, and Args the command line of the server. As
	// execvp(3) does, mcpscope looks for Args[0] in PATH.
	*exec.Cmd
	// Flags are flags of "mcpscope run" for a name, limits, grace periods and others: "--memory-max=1G".
	Flags []string

	report *os.File // the pipe with the report
}

// ExitError is a server that ended with another status than 0, or that mcpscope could not run.
type ExitError struct {
	*exec.ExitError // with the status of the server's main process
	// Cause is why the server was stopped: "main-exited", "stdin-closed", "signal" and others. It is "" if
	// mcpscope failed: the exit status is 125, or 126 and 127 for a command that can't be executed. The
	// reason is on Stderr then.
	Cause string
	// Report is the line of JSON from "mcpscope run --report", with the cause and figures.
	Report json.RawMessage
}

func (e *ExitError) Error() string {
	if e.Cause == "" {
		return "mcpscope could not run the server: " + e.ExitError.Error()
	}
	return fmt.Sprintf("server: %v (%s)", e.ExitError, e.Cause)
}

func (e *ExitError) Unwrap() error { return e.ExitError }

// Command returns a Cmd for a server.
func Command(name string, args ...string) *Cmd {
	return CommandContext(context.Background(), name, args...)
}

// CommandContext is Command with a context: when it is done, the server is stopped with SIGTERM and the term
// grace.
func CommandContext(ctx context.Context, name string, args ...string) *Cmd {
	cmd := exec.CommandContext(ctx, "mcpscope")
	cmd.Args = append([]string{name}, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	return &Cmd{Cmd: cmd}
}

// Start starts the server, and returns without waiting for it. The error is an *exec.Error if there is no
// mcpscope.
func (c *Cmd) Start() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	c.ExtraFiles = append(slices.Clip(c.ExtraFiles), write)
	own := []string{c.Path, "run", fmt.Sprintf("--report=fd:%d", 2+len(c.ExtraFiles))}
	c.Args = slices.Concat(own, c.Flags, []string{"--"}, c.Args)
	if err := c.Cmd.Start(); err != nil {
		_ = read.Close()
		return err
	}
	c.report = read
	return nil
}

// Wait waits until nothing of the server is left. Of a server that ended with a status other than 0 the error
// is an *ExitError.
func (c *Cmd) Wait() error {
	defer c.report.Close()
	err := c.Cmd.Wait()
	// After the death of a launcher a helper stops the server, and closes the pipe at the end.
	text, _ := io.ReadAll(c.report)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	var report struct{ Cause string }
	_ = json.Unmarshal(text, &report) // mcpscope may have failed without a report
	return &ExitError{exit, report.Cause, text}
}

// Run starts the server and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the server and returns its stdout.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	err := c.Run()
	return out.Bytes(), err
}

// CombinedOutput runs the server and returns its stdout and stderr.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	c.Stderr = &out
	err := c.Run()
	return out.Bytes(), err
}
