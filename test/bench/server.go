// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/linux"
	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
)

// patience is for what must happen at once.
const patience = 30 * time.Second

// A server is one that has said its first line. Its descriptors are raw and blocking: the
// runtime's poller would add its own time to each answer.
type server struct {
	cmd     *exec.Cmd
	in, out int
	pid     int           // as the server sees it
	took    time.Duration // to the first byte
	said    *os.File
	watches []*linux.Watch
	group   string // what has to be gone before the next one starts, or ""
}

// start starts a server with everything around it.
func start(c contender, connect connection, args ...string) (*server, error) {
	cmd, err := c.command(args...)
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	if s.said, err = os.CreateTemp("", "stderr."); err != nil {
		return nil, err
	}
	_ = os.Remove(s.said.Name()) // the descriptor is all that is needed
	theirIn, ourIn, err := connect()
	if err != nil {
		return nil, err
	}
	ourOut, theirOut, err := connect()
	if err != nil {
		return nil, err
	}
	s.in, s.out = ourIn, ourOut
	stdin, stdout := os.NewFile(uintptr(theirIn), "stdin"), os.NewFile(uintptr(theirOut), "stdout")
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = stdin, stdout, s.said
	if c.watched {
		if s.watches, err = watch(theirIn, theirOut); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	err = s.cmd.Start()
	_, _ = stdin.Close(), stdout.Close() // the server has them
	if err == nil {
		err = s.greet(begin)
	}
	if err != nil {
		return nil, errors.Join(s.explain(c, err), s.end())
	}
	return s, s.locate(c)
}

// greet reads the first line, which comes in one piece.
func (s *server) greet(begin time.Time) error {
	line := make([]byte, 64)
	n, err := unix.Read(s.out, line)
	s.took = time.Since(begin)
	if err != nil {
		return os.NewSyscallError("read", err)
	}
	if n == 0 {
		return io.ErrUnexpectedEOF
	}
	s.pid, err = strconv.Atoi(string(bytes.TrimSpace(line[:n])))
	return err
}

// explain adds what was said on stderr.
func (s *server) explain(c contender, err error) error {
	text := make([]byte, 4096)
	n, _ := s.said.ReadAt(text, 0) // io.EOF, as a rule
	said := strings.Join(strings.Fields(string(text[:n])), " ")
	return fmt.Errorf("start a server by %s: %w: %s", c.name, err, said)
}

// locate finds the group that was made for the server.
func (s *server) locate(c contender) error {
	if !c.grouped {
		return nil
	}
	path, err := bed.ProcessPath(s.pid)
	s.group = filepath.Join(cgroups, path)
	return err
}

// end closes stdin, and returns when all that was started is gone.
func (s *server) end() error {
	s.hangUp()
	if s.cmd.Process == nil {
		return nil
	}
	return errors.Join(s.cmd.Wait(), s.awaitRemoval())
}

// hangUp closes stdin and reads stdout to its end.
func (s *server) hangUp() {
	_ = unix.Close(s.in) // nothing is buffered
	for buf := make([]byte, 4096); ; {
		if n, err := unix.Read(s.out, buf); n <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_, _ = unix.Close(s.out), s.said.Close()
	for _, w := range s.watches {
		w.Close()
	}
}

// awaitRemoval waits for those who tidy up behind the server: they would be in the way of
// the next measurement.
func (s *server) awaitRemoval() error {
	if s.group == "" {
		return nil
	}
	return escape.AwaitRemoval(s.group, patience)
}

// once starts and ends a server, and returns its time to the first byte.
func (c contender) once() (time.Duration, error) {
	s, err := start(c, pipe)
	if err != nil {
		return 0, err
	}
	return s.took, s.end()
}

// whole runs a server whose client has left already, and returns its time to the exit.
func (c contender) whole() (time.Duration, error) {
	cmd, err := c.command()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := cmd.Run(); err != nil { // once has said why
		return 0, fmt.Errorf("%s: %w", c.name, err)
	}
	return time.Since(begin), nil
}
