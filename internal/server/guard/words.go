// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// sendWord sends a word.
func sendWord(sock int32, word byte) {
	g := page.Guard{Sock: int(sock)}
	g.SendWord(word)
}

// Flags that receive returns beside a word.
const (
	truncatedWord = 1 << iota // there was no room for the descriptors
	deadPeer
)

// receive reads a word with its descriptors, -1 behind them.
func receive(sock int32, r *page.Rights, how uintptr) (word byte, flags uint32) {
	for i := range r.FDs {
		r.FDs[i] = -1
	}
	text := struct{ base, size uintptr }{uintptr(unsafe.Pointer(&word)), 1} // struct iovec
	header := page.MessageHeader{
		Texts: uintptr(unsafe.Pointer(&text)), TextCount: 1,
		Control: uintptr(unsafe.Pointer(r)), ControlSize: unsafe.Sizeof(*r),
	}
	addr := uintptr(unsafe.Pointer(&header))
	n, e := sys(unix.SYS_RECVMSG, uintptr(sock), addr, how|unix.MSG_CMSG_CLOEXEC, 0, 0)
	const written = 0xffffffff // behind the flags are four bytes that the kernel does not write
	if e == 0 && header.Flags&written&unix.MSG_CTRUNC != 0 {
		flags |= truncatedWord
	}
	if e != syscall.EAGAIN && e != syscall.EINTR && (e != 0 || n == 0) {
		flags |= deadPeer
	}
	return word, flags
}

// reception has the descriptors that came with the last word.
type reception struct {
	rights    page.Rights
	truncated bool // there was no room for the descriptors
}

// read receives a word, or 0. Behind the descriptors that came with it are -1. If not all of them could
// be received, it closes those that were.
func (r *reception) read(sock int32, how uintptr) (word byte, dead bool) {
	word, flags := receive(sock, &r.rights, how)
	r.truncated = flags&truncatedWord != 0
	for i := range r.rights.FDs {
		if r.truncated && r.rights.FDs[i] >= 0 {
			closeFD(r.rights.FDs[i])
			r.rights.FDs[i] = -1
		}
	}
	return word, flags&deadPeer != 0
}
