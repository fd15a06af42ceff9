// SPDX-License-Identifier: Apache-2.0

// Package opened counts how often files are opened.
package opened

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Times returns how often any process opened a file while a function ran. The kernel counts, so it is neither a
// matter of time nor of the code that reads.
func Times(t testing.TB, file string, do func()) (count int) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	// an access after an open keeps the kernel from merging two of them into one event
	if _, err := unix.InotifyAddWatch(fd, file, unix.IN_OPEN|unix.IN_CLOSE); err != nil {
		t.Fatal(err)
	}
	do()
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(fd, buf)
		if err != nil || n <= 0 {
			return count
		}
		for at := 0; at < n; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			if event.Mask&unix.IN_OPEN != 0 {
				count++
			}
			at += unix.SizeofInotifyEvent + int(event.Len)
		}
	}
}
