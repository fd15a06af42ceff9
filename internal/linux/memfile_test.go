// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

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
