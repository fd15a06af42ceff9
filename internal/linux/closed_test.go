// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe or socket is closed when nobody has its other end any more, whoever that was.
func TestClosed(t *testing.T) {
	var pair [2]int
	readIn, writeIn := pipe(t)
	readOut, writeOut := pipe(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	listener, listenErr := net.Listen("unix", filepath.Join(dir, "socket"))
	if err := errors.Join(unix.Mkfifo(fifo, 0o600), listenErr); err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	socket, err := listener.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := func(in, out *os.File) int {
		cmd := exec.Command("sleep", "1000")
		cmd.Stdin, cmd.Stdout = in, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it sleeps
			_ = cmd.Wait()         // killed
		})
		return cmd.Process.Pid
	}
	file := func(fd int) *os.File { return os.NewFile(uintptr(fd), "end") }
	theirIn, theirOut, theirSocket := file(readIn), file(writeOut), file(pair[0])
	piped, connected, others := start(theirIn, theirOut), start(theirSocket, theirSocket), start(held, socket)
	for _, f := range []*os.File{theirIn, theirOut, theirSocket, held, socket} {
		f.Close()
	}
	want := func(what string, pid int, in, out bool) {
		t.Helper()
		if got := [2]bool{Closed(pid, 0), Closed(pid, 1)}; got != [2]bool{in, out} {
			t.Errorf("%s: stdin and stdout are closed: %v", what, got)
		}
	}
	want("pipes that we hold", piped, false, false)
	want("a socket that we hold", connected, false, false)
	_ = unix.Close(writeIn)
	want("a pipe without writer", piped, true, false)
	_ = unix.Close(readOut)
	want("pipes that nobody holds", piped, true, true)
	_ = unix.Close(pair[1])
	want("a socket that nobody holds", connected, true, true)
	want("a FIFO, and a socket that listens", others, false, false)
	want("/dev/null", start(nil, nil), false, false)
	want("nobody", 1<<30, false, false)
}
