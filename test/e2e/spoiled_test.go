// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A member of root's may take from the supervisor what it needs to end a group. The
// launcher looks for itself before it returns.
func TestSupervisorWithoutDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := startServer(w, []string{"--group"}, []string{"--eof-grace", "100ms", "--term-grace", "100ms"}, binaries.Zoo, "ignore-both")
	none := unix.Rlimit{}
	if err := unix.Prlimit(s.supervisor.PID, unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	s.Tell("close")
	if !s.Server.Ended(escape.Patience) {
		t.Fatal("the launcher did not return")
	}
	if left := s.members.Running(); len(left) > 0 {
		t.Errorf("it returned before they were dead: %q", left)
	}
	w.clean()
}

// Nobody empties the pipe that the report goes to: the end does not depend on it.
func TestReportIntoAFullPipe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fifo := t.TempDir() + "/fifo"
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	fillPipe(t, reader)
	s := startServer(w, []string{"--group"}, []string{"--report", fifo}, binaries.Zoo, "plain")
	s.Tell("close")
	s.dead(escape.Patience)
	w.clean()
}

// fillPipe writes to a pipe until it takes no more.
func fillPipe(t *testing.T, pipe *os.File) {
	t.Helper()
	fd := int(pipe.Fd()) // once: each call makes it block again
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); ; {
		if _, err := unix.Write(fd, block); err != nil {
			return
		}
	}
}
