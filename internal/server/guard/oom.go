// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A client may start its servers as the first victims of the kernel's OOM killer (oom_score_adj). Launcher
// and guard hardly have memory, and lower a score above 0 as far as they may: without privileges to the least
// one that a privileged process has set. A process that is not dumpable may not open the file to write, so it
// opens it before.

const scoreFile = "/proc/self/oom_score_adj\x00"

// openScore returns -1 if that fails.
func openScore() int32 {
	fd, _ := openAt(unix.AT_FDCWD, scoreFile, unix.O_RDWR)
	return fd
}

// lowerScore closes the file.
func lowerScore(fd int32) {
	present := readScore(fd)
	for score := 0; score < present; score += 100 {
		var digits [11]byte
		addr := decimal(&digits, score)
		end := uintptr(unsafe.Pointer(&digits[len(digits)-1]))
		if _, e := sys(unix.SYS_PWRITE64, uintptr(fd), addr, end-addr, 0, 0); e == 0 {
			break
		}
	}
	closeFD(fd)
}

// readScore returns 0 for a negative one as well.
func readScore(fd int32) (score int) {
	text := [8]byte{}
	sys(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&text)), uintptr(len(text)), 0, 0)
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		score = score*10 + int(c-'0')
	}
	return score
}

// lowerOwnScore lowers a positive score of a guard, which is born undumpable. It is dumpable only where it
// has to be.
func lowerOwnScore() {
	fd, _ := openAt(unix.AT_FDCWD, scoreFile, 0)
	high := readScore(fd) > 0
	closeFD(fd)
	if !high {
		return
	}
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	fd = openScore()
	sys(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	lowerScore(fd)
}
