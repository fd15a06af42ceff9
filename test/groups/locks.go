// SPDX-License-Identifier: Apache-2.0

//go:build linux

package groups

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// locksMany make /proc/locks longer than all else that a list or a sweep reads.
const locksMany = 3000

// ReadingsOfLocks counts how often this process reads /proc/locks while it does something. No other test may run
// meanwhile.
func ReadingsOfLocks(t *testing.T, do func()) int {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "locked"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // which unlocks it
	for i := range int64(locksMany) {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: 2 * i, Len: 1}
		if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	before := BytesRead(t)
	do()
	return int((BytesRead(t) - before) / uint64(len(text)*9/10)) // other processes may have some locks less then
}

// BytesRead counts the bytes that this process has read so far.
func BytesRead(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Fatal(err)
	}
	var read uint64
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &read); err != nil {
		t.Fatal(err)
	}
	return read
}
