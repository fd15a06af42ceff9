// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An Outcome is a command's output and status.
type Outcome struct {
	Stdout, Stderr string
	Status         syscall.WaitStatus
}

// Finish runs a command, born in the group, to its end. Its output goes into files: a process
// that it left could hold a pipe open.
func Finish(group string, cmd *exec.Cmd) (Outcome, error) { return FinishWithin(Patience, group, cmd) }

// FinishWithin is Finish for a program that takes its time.
func FinishWithin(limit time.Duration, group string, cmd *exec.Cmd) (o Outcome, err error) {
	out, err := OpenMemory("stdout")
	if err != nil {
		return o, err
	}
	defer out.Close()
	errs, err := OpenMemory("stderr")
	if err != nil {
		return o, err
	}
	defer errs.Close()
	cmd.Stdout = out
	cmd.Stderr = errs
	if err := StartIn(group, cmd); err != nil {
		return o, err
	}
	p, err := OpenProcess(cmd.Process.Pid)
	if err != nil {
		return o, err
	}
	defer p.Close()
	if !p.Ended(limit) {
		what := Describe(p.PID)
		_ = cmd.Process.Kill() // as good as ended
		err = fmt.Errorf("%q did not end: %s; stderr: %s", cmd.Args, what, Contents(errs))
	}
	if werr := cmd.Wait(); cmd.ProcessState == nil {
		return o, werr
	}
	return Outcome{whole(out), whole(errs), cmd.ProcessState.Sys().(syscall.WaitStatus)}, err
}

// whole reads a file from its beginning, wherever its offset is.
func whole(file *os.File) string {
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, 1<<30)) // memory
	return string(text)
}

// Contains fails the test for each text that is missing.
func Contains(t *testing.T, said string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(said, text) {
			t.Errorf("no %q in: %s", text, said)
		}
	}
}
