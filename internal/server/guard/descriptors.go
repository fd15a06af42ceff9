// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"math"

	"golang.org/x/sys/unix"
)

// keepList are the descriptors that a guard has. The first ones are for helpers, too.
type keepList struct {
	fds    [mostKept]int32
	count  int
	shared int
}

func (k *keepList) add(fd int32) {
	if fd >= 0 && k.count < mostKept {
		k.fds[k.count] = fd
		k.count++
	}
}

// closeOthers closes all descriptors but those of the list.
func (k *keepList) closeOthers() {
	last := int32(0)
	for from := int32(0); ; from = last + 1 { // a watcher has thousands between those that are kept
		last = k.next(from)
		if last > from {
			closeRange(from, last-1)
		}
		if last == math.MaxInt32 {
			return
		}
	}
}

// next is the first descriptor from that number on which the guard keeps, or MaxInt32.
func (k *keepList) next(from int32) int32 {
	next := int32(math.MaxInt32)
	for i := 0; i < k.count; i++ {
		if fd := k.fds[i&(mostKept-1)]; fd >= from {
			next = min(next, fd)
		}
	}
	return next
}

func closeRange(from, to int32) {
	_, e := sys(unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(to), 0, 0, 0) // Linux 5.9
	if e == 0 {
		return
	}
	most := max(from, 4096) // seccomp refuses it
	for fd := from; fd <= min(to, most); fd++ {
		closeFD(fd)
	}
}
