// SPDX-License-Identifier: Apache-2.0

//go:build linux

package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The program is named by a descriptor between two that are kept, and the environment has a variable twice.
func TestStart(t *testing.T) {
	open := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	shell := open("/bin/sh", unix.O_PATH)
	out, err := unix.MemfdCreate("out", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(out), "out")
	defer f.Close()
	script := fmt.Sprintf("{ tr '\\0' '\\n' </proc/$$/environ; test -e /proc/$$/fd/%d || echo closed; } >&%d", shell, out)
	pid, err := Start(fmt.Sprintf("/proc/self/fd/%d", shell), []string{"sh", "-c", script}, []string{"A=1", "A=2"}, []int{out}, &syscall.SysProcAttr{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 4096)
	n, _ := f.ReadAt(text, 0)
	got := strings.Join(strings.Fields(string(text[:n])), " ")
	if want := "A=1 A=2 closed"; got != want {
		t.Errorf("the new process has %q, want %q", got, want)
	}
	if _, err := Start("/proc/none", []string{"x"}, nil, nil, &syscall.SysProcAttr{}); err == nil {
		t.Error("a program that does not exist is started")
	}
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	for _, want := range [][]byte{nil, []byte("text\x00\xff"), bytes.Repeat([]byte("long "), 1<<20)} {
		fd, err := WriteMemoryFile(want)
		if err != nil {
			t.Fatal(err)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("flags %x, %v", flags, err)
		}
		got, err := ReadMemoryFile(fd)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("the file is still open: %v", err)
		}
	}
}
