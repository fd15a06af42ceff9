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
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/bed"
	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A server is one that has written its first line. Its pipes are raw and blocking: the runtime's poller would
// add its own time to each answer.
type server struct {
	cmd     *exec.Cmd
	in, out int
	pid     int           // in the server's own namespace
	took    time.Duration // to the first byte
	stderr  *os.File
	group   string // must be gone before the next one starts; "" for none
}

func startServer(c contender, flags []string, args ...string) (*server, error) {
	s := &server{cmd: c.command(flags, args...)}
	var err error
	if s.stderr, err = escape.OpenMemory("stderr"); err != nil {
		return nil, err
	}
	var stdin, stdout [2]int
	if err := errors.Join(unix.Pipe2(stdin[:], unix.O_CLOEXEC),
		unix.Pipe2(stdout[:], unix.O_CLOEXEC)); err != nil {
		return nil, err
	}
	s.in = stdin[1]
	s.out = stdout[0]
	theirIn := os.NewFile(uintptr(stdin[0]), "stdin")
	theirOut := os.NewFile(uintptr(stdout[1]), "stdout")
	s.cmd.Stdin = theirIn
	s.cmd.Stdout = theirOut
	s.cmd.Stderr = s.stderr
	begin := time.Now()
	err = s.cmd.Start()
	// The server has them.
	_ = theirIn.Close()
	_ = theirOut.Close()
	if err == nil {
		err = s.readFirstLine(begin)
	}
	if err != nil {
		err = fmt.Errorf("start a server by %s: %w: %s", c.name, err, escape.Contents(s.stderr))
		return nil, errors.Join(err, s.end())
	}
	if c.grouped {
		path, err := bed.ProcessPath(s.pid)
		s.group = filepath.Join("/sys/fs/cgroup", path)
		return s, err
	}
	return s, nil
}

// readFirstLine reads the pid, which comes in one piece.
func (s *server) readFirstLine(begin time.Time) error {
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

// awaitEnd reads stdout to its end, which comes with the exit of the last process that holds it.
func (s *server) awaitEnd() {
	for buf := make([]byte, 4096); ; {
		if n, err := unix.Read(s.out, buf); n <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// end closes stdin, and returns when the group is removed, which would disturb the next measurement.
func (s *server) end() error {
	_ = unix.Close(s.in) // nothing is buffered
	s.awaitEnd()
	_ = unix.Close(s.out)
	_ = s.stderr.Close()
	if s.cmd.Process == nil {
		return nil
	}
	_ = s.cmd.Wait() // it may have been killed
	if s.group == "" {
		return nil
	}
	return escape.AwaitRemoval(s.group, escape.Patience)
}

// once starts and stops a server, and returns its time to the first byte.
func (c contender) once(b *testing.B) time.Duration {
	b.Helper()
	s, err := startServer(c, nil)
	must(b, err)
	must(b, s.end())
	settle(b)
	return s.took
}

// settle waits until no process of mcpscope is left: a guard and its helper outlive a launcher, and would
// slow the next start.
func settle(b *testing.B) {
	b.Helper()
	gone := func() bool { return len(processesOf(mcpscopeFile)) == 0 }
	if !pace.Eventually(escape.Patience, gone) {
		b.Fatalf("processes of %s are left", mcpscopeFile)
	}
}

// processesOf are the directories of all processes that run a program.
func processesOf(program string) (dirs []string) {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range all {
		file, err := os.Readlink(dir + "/exe")
		if err == nil && filepath.Base(file) == filepath.Base(program) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// whole runs a server whose stdin is at its end, and returns its time to the exit.
func (c contender) whole(b *testing.B) time.Duration {
	b.Helper()
	cmd := c.command(nil)
	begin := time.Now()
	must(b, cmd.Run())
	took := time.Since(begin)
	settle(b)
	return took
}

// usage adds up the private memory in kB and the tasks of all processes that run a program.
func usage(program string) (private, tasks float64, err error) {
	for _, dir := range processesOf(program) {
		text, err := os.ReadFile(dir + "/smaps_rollup")
		if err != nil {
			return 0, 0, err
		}
		for line := range strings.Lines(string(text)) {
			var kb float64
			if key, rest, _ := strings.Cut(line, ":"); strings.HasPrefix(key, "Private_") {
				if _, err := fmt.Sscan(rest, &kb); err != nil {
					return 0, 0, err
				}
				private += kb
			}
		}
		threads, _ := filepath.Glob(dir + "/task/[0-9]*") // as above
		tasks += float64(len(threads))
	}
	return private, tasks, nil
}
