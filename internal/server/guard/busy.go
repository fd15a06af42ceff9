// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// A brain takes 3 ms of a processor. An agent may start all its servers at once, and each of them would wait
// for the brains of those before. So a start is settled when a processor is free: the guard looks again after
// 20, 40, … and 320 ms. After these 620 ms together it is settled in any case.
const (
	postponeFirst = 20e6
	postponeLast  = 320e6
)

// postpone has a brain come later that would only settle the start. It reports whether it does. A server that
// replaces another one may be gone by then.
func (c *brainCall) postpone(on *page.Page) bool {
	settles := on.Unsettled() && on.ByGuard.Tasks == 0 && !on.Order.Replaces
	if !settles || c.postponed >= postponeLast || !isBusy() {
		return false
	}
	c.postponed = max(postponeFirst, 2*c.postponed)
	on.ByBrain.CallBrainAt = now() + c.postponed
	return true
}

// isBusy reports whether more threads want to run than there are processors for this process.
func isBusy() bool {
	return running() > processors()
}

// running is the number of threads on this host that run or could, with our own; 0 if it is unknown.
func running() (count int) {
	fd, e := openAt(unix.AT_FDCWD, "/proc/loadavg\x00", 0)
	if e != 0 {
		return 0
	}
	text := [64]byte{}
	sys(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&text)), uintptr(len(text)), 0, 0)
	closeFD(fd)
	field := 0 // the fourth one is "running/all" (proc_loadavg(5))
	for _, c := range text {
		switch {
		case c == ' ':
			field++
		case c < '0' || c > '9':
			if field == 3 {
				return count
			}
		case field == 3:
			count = count*10 + int(c-'0')
		}
	}
	return 0
}

func processors() (count int) {
	mask := [128]uint64{} // the kernel has at most 8192
	sys(unix.SYS_SCHED_GETAFFINITY, 0, unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)), 0, 0)
	for _, word := range mask {
		for ; word != 0; word &= word - 1 {
			count++
		}
	}
	return count
}
