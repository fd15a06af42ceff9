// SPDX-License-Identifier: Apache-2.0

//go:build linux

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
	"strconv"
	"time"

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
	// MemoryMax in bytes, CPUMax in processors and PIDsMax in tasks limit the server; 0 is no limit.
	MemoryMax int64
	CPUMax    float64
	PIDsMax   int
	// EOFGrace is the time from the end of stdin to SIGTERM, TermGrace the time from SIGTERM to SIGKILL. 0
	// stands for mcpscope's own (1.2 s and 1 s).
	EOFGrace, TermGrace time.Duration
	// Flags are other flags of "mcpscope run".
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

func (c *Cmd) arguments(report int) []string {
	args := []string{"run", "--report", "fd:" + strconv.Itoa(report)}
	add := func(is bool, flag, value string) {
		if is {
			args = append(args, flag, value)
		}
	}
	add(c.Name != "", "--name", c.Name)
	add(c.MemoryMax > 0, "--memory-max", strconv.FormatInt(c.MemoryMax, 10))
	add(c.CPUMax > 0, "--cpu-max", strconv.FormatFloat(c.CPUMax, 'f', -1, 64))
	add(c.PIDsMax > 0, "--pids-max", strconv.Itoa(c.PIDsMax))
	add(c.EOFGrace > 0, "--eof-grace", c.EOFGrace.String())
	add(c.TermGrace > 0, "--term-grace", c.TermGrace.String())
	return append(append(append(args, c.Flags...), "--"), c.Args...)
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
	cmd.Args = append([]string{cmd.Path}, c.arguments(2+len(cmd.ExtraFiles))...)
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
	failed := &ExitError{ExitError: exit}
	if line, _, found := bytes.Cut(text, []byte("\n")); found {
		failed.Report = &Report{}
		if json.Unmarshal(line, failed.Report) != nil {
			failed.Report = nil
		}
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
