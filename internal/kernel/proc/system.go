// SPDX-License-Identifier: Apache-2.0

//go:build linux

package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Mapping is a range of addresses.
type Mapping struct{ From, To uintptr }

// PrivateMemory lists the writable private mappings of this process but the stack, none without /proc.
func PrivateMemory() (all []Mapping) {
	maps, _ := read("/proc/self/maps", NoLimit)
	for line := range bytes.Lines(maps) { // "7f00-7f80 rw-p …"
		addresses, rest, _ := bytes.Cut(line, []byte(" "))
		first, last, _ := bytes.Cut(addresses, []byte("-"))
		from, err := strconv.ParseUint(string(first), 16, 64)
		to, err2 := strconv.ParseUint(string(last), 16, 64)
		stack := bytes.HasSuffix(rest, []byte("[stack]\n"))
		if err == nil && err2 == nil && bytes.HasPrefix(rest, []byte("rw-p")) && !stack {
			all = append(all, Mapping{uintptr(from), uintptr(to)})
		}
	}
	return all
}

// HoldsFlock reports whether a process has taken a flock(2) that still exists on the file with that device
// and inode number. A line of /proc/locks is "1: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF".
func HoldsFlock(pid int, dev, ino uint64) (bool, error) {
	b, err := read("/proc/locks", NoLimit)
	lock := fmt.Appendf(nil, "WRITE %d %02x:%02x:%d ", pid, unix.Major(dev), unix.Minor(dev), ino)
	for line := range bytes.Lines(b) {
		if bytes.Contains(line, []byte(": FLOCK ")) && bytes.Contains(line, lock) {
			return true, nil
		}
	}
	return false, err
}

// Output returns the text that a program writes to stdout and stderr, however it ends.
func Output(path string, argv, env []string) ([]byte, error) {
	r, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create pipe: %w", err)
	}
	defer r.Close()
	files := []uintptr{0, to.Fd(), to.Fd()}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{Env: env, Files: files})
	_ = to.Close() // the program's
	if err != nil {
		return nil, fmt.Errorf("execute %s: %w", path, err)
	}
	text, err := io.ReadAll(r)
	_, _ = syscall.Wait4(pid, nil, 0, nil) // the text shows how it ended
	return text, err
}
