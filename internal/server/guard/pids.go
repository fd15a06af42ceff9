// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidList reads a file of pids: a line each, or with a blank behind each.
type pidList struct {
	file    int32
	buf     *[512]byte
	pid     int32   // that next has found; 0 for a process of another pid namespace
	offset  uintptr // in the file, of what is read next
	at      uintptr // in buf
	size    uintptr
	hasGaps bool // the file could not be read to its end
}

// next goes to the next pid, and returns false behind the last one.
func (l *pidList) next() bool {
	for l.at == l.size {
		if !l.read() {
			return false
		}
	}
	l.pid = 0
	for ; l.at < l.size; l.at++ {
		c := l.buf[l.at&511]
		if !isDigit(c) {
			l.at++
			break
		}
		l.pid = l.pid*10 + int32(c-'0')
	}
	return true
}

// read reads a part of the file, up to the end of its last pid.
func (l *pidList) read() bool {
	addr := uintptr(unsafe.Pointer(l.buf))
	n, e := sys(unix.SYS_PREAD64, uintptr(l.file), addr, unsafe.Sizeof(*l.buf), l.offset, 0)
	l.hasGaps = e != 0
	if e != 0 {
		return false
	}
	for n > 0 && isDigit(l.buf[(n-1)&511]) {
		n--
	}
	l.at = 0
	l.size = n
	l.offset += n
	return n > 0
}

// has reports whether the rest of the list has that pid.
func (l *pidList) has(pid int32) bool {
	for l.next() {
		if l.pid == pid {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
