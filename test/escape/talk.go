// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A Talk is a command that exchanges lines with a test, as a server with a client.
type Talk struct {
	Cmd    *exec.Cmd
	Stdin  io.WriteCloser
	Out    *bufio.Reader
	out    *os.File
	t      *testing.T
	stderr *os.File // an orphan would hold a pipe open
}

// StartTalk starts cmd by start, until the end of the test.
func StartTalk(t *testing.T, cmd *exec.Cmd, start func() error) *Talk {
	t.Helper()
	k := &Talk{Cmd: cmd, t: t, stderr: MemoryFile(t)}
	cmd.Stderr = k.stderr
	var err error
	if k.Stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.out = out.(*os.File) // os/exec's
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most tests have ended it
		_ = cmd.Wait()
	})
	k.Out = bufio.NewReader(out)
	return k
}

// Wait waits until the command has ended, and kills one that does not.
func (k *Talk) Wait() error {
	k.t.Helper()
	if p, err := OpenProcess(k.Cmd.Process.Pid); err == nil { // not reaped, so the pid is still its own
		defer p.Close()
		if !p.Ended(Patience) {
			k.t.Errorf("it does not end: %s; stderr: %s", Describe(p.PID), k.Said())
			p.Signal(unix.SIGKILL)
		}
	}
	return k.Cmd.Wait()
}

// Said returns the text on stderr.
func (k *Talk) Said() string { return Contents(k.stderr) }

// Line waits for the next line of stdout.
func (k *Talk) Line() string {
	k.t.Helper()
	line, err := readLine(k.out, k.Out)
	if err != nil {
		k.t.Fatalf("the server says %q (%v); stderr: %s", line, err, k.Said())
	}
	return strings.TrimSuffix(line, "\n")
}

func (k *Talk) Hear(want string) {
	k.t.Helper()
	if line := k.Line(); line != want {
		k.t.Fatalf("the server says %q, want %q; stderr: %s", line, want, k.Said())
	}
}

func (k *Talk) Tell(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.Stdin, line+"\n"); err != nil {
		k.t.Error(err)
	}
}
