// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

func pipe(t *testing.T) (read, write int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return p[0], p[1]
}

func watch(t *testing.T, fd int, events uint32) *Watch {
	t.Helper()
	w, err := NewWatch(fd, events)
	if err != nil || w == nil {
		t.Fatalf("watch: %v, %v", w, err)
	}
	t.Cleanup(w.Close)
	return w
}

// The set outlives our descriptor, and we are no reader any more.
func TestPipeAfterOurCopyIsClosed(t *testing.T) {
	read, write := pipe(t)
	server, err := unix.Dup(read)
	if err != nil {
		t.Fatal(err)
	}
	hang, input := watch(t, read, HangUp), watch(t, read, Input)
	_ = unix.Close(read)
	if hang.Fired() || input.Readable() {
		t.Fatal("fired while nothing happened")
	}
	if _, err := unix.Write(write, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if hang.Fired() || !input.Readable() {
		t.Fatalf("after a write: hang-up %v, input %v", hang.Fired(), input.Readable())
	}
	_ = unix.Close(write)
	again := hang.Fired()
	if !hang.Fired() || !again || !input.Readable() {
		t.Fatal("the hang-up with unread input was not seen, or not twice")
	}
	if _, err := unix.Read(server, make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	if input.Readable() {
		t.Fatal("the hang-up alone counts as input")
	}
	_ = unix.Close(server)
}

func TestClientGetsEPIPE(t *testing.T) {
	read, write := pipe(t)
	watch(t, read, HangUp)
	watch(t, read, Input)
	_ = unix.Close(read) // the server's copy, too
	// Go's runtime turns SIGPIPE on descriptors above 2 into the error alone
	if _, err := unix.Write(write, []byte("x")); err != unix.EPIPE {
		t.Fatalf("write with no reader left: %v", err)
	}
	_ = unix.Close(write)
}

// Node's stdin.end() shuts down one direction of a socket; a reader of stdout closes a pipe.
func TestHalfClosed(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	read, write := pipe(t)
	defer unix.Close(write)
	in, out := watch(t, fds[1], HangUp), watch(t, write, Error)
	if in.Fired() || out.Fired() {
		t.Fatal("fired while nothing happened")
	}
	_ = unix.Shutdown(fds[0], unix.SHUT_WR)
	_ = unix.Close(read)
	if !in.Fired() || !out.Fired() {
		t.Fatalf("seen: the half-close %v, the reader's end %v", in.Fired(), out.Fired())
	}
}

func TestNothingToWatch(t *testing.T) {
	if w, err := NewWatch(9999, HangUp); w != nil || err != nil || w.Fired() || w.Readable() || w.FD() != -1 {
		t.Errorf("%v, %v", w, err)
	}
}

// On a socket only the server's own descriptor tells what is unread.
func TestUnread(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	theirs := os.NewFile(uintptr(fds[1]), "stdin")
	file, conveyed := IdentifyFile(fds[1])
	if !conveyed {
		t.Fatal("a socket has another end")
	}
	cmd := exec.Command("sleep", "1000")
	cmd.Stdin = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	_ = theirs.Close()
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	if UnreadInput(pidfd, file) {
		t.Fatal("unread before anything was written")
	}
	if _, err := unix.Write(fds[0], []byte("x")); err != nil {
		t.Fatal(err)
	}
	if !UnreadInput(pidfd, file) {
		t.Fatal("one byte is unread")
	}
	if UnreadInput(pidfd, File{}) {
		t.Fatal("looked at another file than was asked for")
	}
}
