// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// A client may start its servers as the first victims of the kernel's OOM killer (oom_score_adj). Launcher
// and guard hardly have memory, and lower their score as far as they may: without privileges to the least one
// that a privileged process has set. A process that is not dumpable may not open the file, so it does so
// before.

const scoreFile = "/proc/self/oom_score_adj\x00"

// openScore returns -1 if that fails.
func openScore() int32 {
	fd, _ := openAt(unix.AT_FDCWD, scoreFile, unix.O_WRONLY)
	return fd
}

// lowerScore closes the file.
func lowerScore(fd int32) {
	for hundreds := -10; hundreds < 10 && fd >= 0; hundreds++ {
		var digits [11]byte
		at := decimal(&digits, 100*max(hundreds, -hundreds))
		end := uintptr(unsafe.Pointer(&digits[len(digits)-1]))
		if hundreds < 0 {
			at--
			digits[(at-uintptr(unsafe.Pointer(&digits)))&7] = '-'
		}
		if _, e := sys(unix.SYS_WRITE, uintptr(fd), at, end-at, 0, 0); e == 0 {
			break
		}
	}
	closeFD(fd)
}
