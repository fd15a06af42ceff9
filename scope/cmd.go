// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package scope runs MCP servers under mcpscope from a Go program. Cmd has the shape of os/exec's: it starts
// "mcpscope run" as a child process, which puts the server into a group of its own. When Wait has returned,
// or the calling program was killed and the grace periods are over, nothing that the server started is left.
// A program may run any number of servers at once; the package changes neither its signals, descriptors nor
// children.
//
// List, Stop and Sweep act on all servers of the calling user, however they were started.
//
// It needs Linux 5.14, and the program mcpscope.
package scope

import (
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

// Cmd is a server that is being prepared or runs. As with os/exec it can't be reused after Start.
type Cmd struct {
	// Args is the command line of the server. As execvp(3) does, mcpscope looks for Args[0] in PATH.
	Args []string
	// Name is the name of the server in "mcpscope ls"; "" derives it from the command (npx, uvx and others).
	Name string
	// Env, Dir, Stdin, Stdout, Stderr and ExtraFiles are the server's, with the meaning that they have in
	// exec.Cmd.
	Env            []string
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	ExtraFiles     []*os.File
	// Flags are flags of "mcpscope run" for limits, grace periods and others: "--memory-max=1G".
	Flags []string
	// Runner is the program mcpscope; "" looks for it in PATH.
	Runner string

	cmd    *exec.Cmd
	ctx    context.Context
	report *os.File // the pipe with the report
}

// Report says how a server ended.
type Report struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Backend string `json:"backend"`
	// Cause is why it was stopped: "main-exited", "stdin-closed", "signal" and others.
	Cause   string  `json:"cause"`
	Seconds float64 `json:"seconds"`
	// MemoryPeakBytes is nil where the kernel does not count it.
	MemoryPeakBytes *uint64 `json:"memory_peak_bytes"`
	// Killed are the first of KilledTotal members that did not end on SIGTERM.
	Killed      []Process `json:"killed"`
	KilledTotal int       `json:"killed_total"`
}

// Process is a member of a server.
type Process struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// ExitError is a server that ended with another status than 0, or that mcpscope could not run.
type ExitError struct {
	*exec.ExitError // with the status of the server's main process
	// Report is nil if mcpscope failed: the exit status is 125, or 126 and 127 for a command that can't be
	// executed. The reason is on Stderr then.
	Report *Report
}

func (e *ExitError) Error() string {
	if e.Report == nil {
		return "mcpscope could not run the server: " + e.ExitError.Error()
	}
	return fmt.Sprintf("server %s: %v (%s)", e.Report.Name, e.ExitError, e.Report.Cause)
}

func (e *ExitError) Unwrap() error { return e.ExitError }

// Command returns a Cmd for a server.
func Command(name string, args ...string) *Cmd {
	return &Cmd{Args: append([]string{name}, args...), ctx: context.Background()}
}

// CommandContext is Command with a context: when it is done, the server is stopped with SIGTERM and the term
// grace.
func CommandContext(ctx context.Context, name string, args ...string) *Cmd {
	c := Command(name, args...)
	c.ctx = ctx
	return c
}

// prepared returns what is executed. The first call of Start or of a pipe makes it.
func (c *Cmd) prepared() *exec.Cmd {
	if c.cmd == nil {
		runner := c.Runner
		if runner == "" {
			runner = "mcpscope"
		}
		c.cmd = exec.CommandContext(c.ctx, runner)
		c.cmd.Cancel = func() error { return c.cmd.Process.Signal(unix.SIGTERM) }
	}
	return c.cmd
}

// Start starts the server, and returns without waiting for it. The error is an *exec.Error if there is no
// mcpscope.
func (c *Cmd) Start() error {
	if len(c.Args) == 0 {
		return errors.New("start a server: no command")
	}
	if c.report != nil {
		return errors.New("start a server: already started")
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer write.Close()
	cmd := c.prepared()
	cmd.Env, cmd.Dir = c.Env, c.Dir
	if c.Stdin != nil {
		cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		cmd.Stderr = c.Stderr
	}
	cmd.ExtraFiles = append(append([]*os.File(nil), c.ExtraFiles...), write)
	own := []string{cmd.Path, "run", fmt.Sprintf("--report=fd:%d", 2+len(cmd.ExtraFiles))}
	if c.Name != "" {
		own = append(own, "--name", c.Name)
	}
	cmd.Args = slices.Concat(own, c.Flags, []string{"--"}, c.Args)
	if err := cmd.Start(); err != nil {
		_ = read.Close()
		return err
	}
	c.report = read
	return nil
}

// Wait waits until nothing of the server is left. Of a server that ended with a status other than 0 the error
// is an *ExitError.
func (c *Cmd) Wait() error {
	if c.report == nil {
		return errors.New("wait for a server: not started")
	}
	defer c.report.Close()
	err := c.cmd.Wait()
	// A launcher that was killed has a successor, which stops the server and closes the pipe at the end.
	text, _ := io.ReadAll(c.report)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	failed := &ExitError{exit, &Report{}}
	if json.Unmarshal(text, failed.Report) != nil {
		failed.Report = nil
	}
	return failed
}

// Run starts the server and waits for it.
func (c *Cmd) Run() error {
	if err := c.Start(); err != nil {
		return err
	}
	return c.Wait()
}

// Kill kills mcpscope itself. The server gets SIGTERM and its term grace, and Wait waits for that.
func (c *Cmd) Kill() error {
	if c.report == nil {
		return errors.New("kill a server: not started")
	}
	return c.cmd.Process.Kill()
}

// StdinPipe returns a pipe to the server's stdin. Closing it asks the server to exit.
func (c *Cmd) StdinPipe() (io.WriteCloser, error) { return c.prepared().StdinPipe() }

// StdoutPipe returns a pipe from the server's stdout. As with os/exec, read it to the end before Wait.
func (c *Cmd) StdoutPipe() (io.ReadCloser, error) { return c.prepared().StdoutPipe() }

// StderrPipe returns a pipe from the server's stderr, which has mcpscope's own failures, too.
func (c *Cmd) StderrPipe() (io.ReadCloser, error) { return c.prepared().StderrPipe() }
