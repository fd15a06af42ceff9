// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"time"

	"github.com/mcpscope/mcpscope/test/pace"
)

// A Bystander echoes lines. It must live, unstopped, until its test ends it.
type Bystander struct {
	Name string
	Cmd  *exec.Cmd
	In   *os.File
	Out  *os.File
	rest *bufio.Reader
}

// Bystander starts cmd in the group and ends it with the test.
func (s *Site) Bystander(name, group string, cmd *exec.Cmd) *Bystander {
	s.T.Helper()
	b := s.NewEcho(group, cmd)
	b.Name = name
	s.T.Cleanup(b.End)
	return b
}

// Plain is a Bystander that is the zoo's simplest.
func (s *Site) Plain(name, group string) *Bystander {
	s.T.Helper()
	return s.Bystander(name, group, s.Command(s.Programs.Zoo, "plain"))
}

// NewEcho is a Bystander that its test must end.
func (s *Site) NewEcho(group string, cmd *exec.Cmd) *Bystander {
	s.T.Helper()
	cmd.Stderr = os.Stderr
	in, out := StartPiped(s.T, cmd, func() error { return StartIn(group, cmd) })
	b := NewBystander("", in, out)
	b.Cmd = cmd
	return b
}

// NewBystander wraps a bystander that another process has started.
func NewBystander(name string, in, out *os.File) *Bystander {
	return &Bystander{Name: name, In: in, Out: out, rest: bufio.NewReader(out)}
}

func (b *Bystander) read() string {
	line, err := readLine(b.Out, b.rest)
	if err != nil {
		return err.Error()
	}
	return line
}

// readLine waits for a line of a pipe, whose rest has been read before.
func readLine(pipe *os.File, rest *bufio.Reader) (string, error) {
	ctx, cancel := pace.Context(Patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = pipe.SetReadDeadline(time.Now()) })() // a pipe has deadlines
	return rest.ReadString('\n')
}

// Lives asks for an answer: a pid alone could be stopped or frozen.
func (b *Bystander) Lives() bool {
	_, err := b.In.WriteString("ping\n")
	return err == nil && b.read() == "ping\n"
}

// End kills it. It may be called again.
func (b *Bystander) End() {
	b.In.Close()
	_ = b.Cmd.Process.Kill() // it may have ended
	_ = b.Cmd.Wait()         // killed
	b.Out.Close()
}
