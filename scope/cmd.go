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
	"strings"

	"golang.org/x/sys/unix"
)

// Cmd is a server that is being prepared or runs: Command makes it, and it can't be reused after Start. Env,
// Dir, Stdin, Stdout, Stderr, ExtraFiles and the pipes are the server's. Process and ProcessState are
// mcpscope's.
//
// Process.Kill kills the server at once, without a grace period; a context that is done leaves it one. The
// server ends with the calling program, whatever its stdin is (--on-client-death=stop), unless another
// process holds the other end of a stdin that is a pipe. Stderr also has mcpscope's own failures.
type Cmd struct {
	// Path is the program mcpscope, which Command finds in PATH. Args is the whole command line: that of
	// mcpscope, "--", and that of the server. As execvp(3) does, mcpscope looks for a server in PATH. A
	// library that starts an *exec.Cmd by itself, such as the CommandTransport of the MCP SDK, can use this
	// one. Then there are no Flags and no report.
	*exec.Cmd
	// Flags are flags of "mcpscope run" for a name, limits, grace periods and others: "--memory-max=1G".
	// --report is not for them: see Report.
	Flags []string

	pipe   *os.File // with the report
	report json.RawMessage
}

// ExitError is a server that ended with another status than 0, or that mcpscope could not run.
type ExitError struct {
	*exec.ExitError // with the status of the server's main process
	// Cause is why the server was stopped: "main-exited", "stdin-closed", "signal" and others. It is "" if
	// mcpscope failed: the exit status is 125, or 126 and 127 for a command that can't be executed. The
	// reason is on Stderr then.
	Cause string
	// Report is that of Cmd.
	Report json.RawMessage

	failure string // of mcpscope
}

func (e *ExitError) Error() string {
	if e.Cause == "" && e.failure != "" {
		return fmt.Sprintf("mcpscope could not run the server: %v (%s)", e.ExitError, e.failure)
	}
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
	cmd.Args = append([]string{"mcpscope", "run", "--on-client-death=stop", "--", name}, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	return &Cmd{Cmd: cmd}
}

// Start starts the server, and returns without waiting for it. The error is an *exec.Error if there is no
// mcpscope.
func (c *Cmd) Start() error {
	if slices.ContainsFunc(c.Flags, isReport) {
		return errors.New("scope: --report is the package's own: see Cmd.Report")
	}
	end := slices.Index(c.Args, "--")
	if end < 0 {
		return errors.New(`scope: Args has no "--" in front of the server`)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	c.ExtraFiles = append(slices.Clip(c.ExtraFiles), write)
	report := fmt.Sprintf("--report=fd:%d", 2+len(c.ExtraFiles))
	c.Args = slices.Insert(slices.Clone(c.Args), end, append([]string{report}, c.Flags...)...)
	if err := c.Cmd.Start(); err != nil {
		_ = read.Close()
		return err
	}
	c.pipe = read
	return nil
}

func isReport(flag string) bool { return flag == "--report" || strings.HasPrefix(flag, "--report=") }

// Report is the line of JSON from "mcpscope run --report", with the cause of the end and figures. It is empty
// before Wait has returned, and if mcpscope could not execute the server.
func (c *Cmd) Report() json.RawMessage { return c.report }

// Wait waits until nothing of the server is left. Of a server that ended with a status other than 0 the error
// is an *ExitError.
func (c *Cmd) Wait() error {
	defer c.pipe.Close()
	err := c.Cmd.Wait()
	// After the death of a launcher a helper stops the server, and closes the pipe at the end.
	c.report, _ = io.ReadAll(c.pipe)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	var report struct{ Cause, Error string }
	_ = json.Unmarshal(c.report, &report) // mcpscope may have failed without a report
	return &ExitError{exit, report.Cause, c.report, report.Error}
}

// Run starts the server and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Output runs the server and returns its stdout. An *ExitError has the end of its stderr, unless Stderr is
// set.
func (c *Cmd) Output() ([]byte, error) {
	var out bytes.Buffer
	var said tail
	c.Stdout = &out
	if c.Stderr == nil {
		c.Stderr = &said
	}
	err := c.Run()
	var exit *ExitError
	if errors.As(err, &exit) {
		exit.Stderr = said
	}
	return out.Bytes(), err
}

// tail keeps the end of what is written.
type tail []byte

// Write never fails.
func (t *tail) Write(text []byte) (int, error) {
	const most = 32 << 10
	*t = append(*t, text...)
	*t = (*t)[max(0, len(*t)-most):]
	return len(text), nil
}

// CombinedOutput runs the server and returns its stdout and stderr.
func (c *Cmd) CombinedOutput() ([]byte, error) {
	var out bytes.Buffer
	c.Stdout = &out
	c.Stderr = &out
	err := c.Run()
	return out.Bytes(), err
}
