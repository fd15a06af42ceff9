// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package guard

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/page"
)

// isUnread reports whether the server has not read all input, or a client that lives not all output.
func isUnread(on *page.Page, clientIsDead bool) bool {
	return hasInput(on) || !clientIsDead && isFull(on.FD.Room[0])
}

func hasInput(on *page.Page) bool {
	switch {
	case !on.Started.Side.Conveyed:
		return false
	case on.Started.Side.Socket: // one that has hung up looks as if it had input
		return unreadOn(uint32(on.Started.Side.Stdin.Ino)) > 0
	}
	return hasEvent(on.FD.Input, unix.EPOLLIN)
}

// isFull reports whether a write would wait. Without the descriptor in any process nothing waits.
func isFull(room int32) bool {
	return room >= 0 && !hasEvent(room, unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) && isWatched(room)
}

// hasEvent reports whether there is one of these events now for the file in an epoll set.
func hasEvent(set int32, events uint32) bool {
	event := unix.EpollEvent{}
	n, e := sys(unix.SYS_EPOLL_PWAIT, uintptr(set), uintptr(unsafe.Pointer(&event)), 1, 0, 0)
	return e == 0 && n == 1 && event.Events&events != 0
}

// isWatched reports whether an epoll set still has its file, which the kernel removes when no process has it
// open: then there is a line with "tfd:" (proc_pid_fdinfo(5)).
func isWatched(set int32) bool {
	path := procPath{}
	path.add("/proc/self/fdinfo/")
	path.addNumber(int(set))
	fd := path.open()
	if fd < 0 {
		return true
	}
	text := [512]byte{}
	size := readFile(fd, &text)
	closeFD(fd)
	for i := uintptr(0); i+3 < size; i++ {
		if text[i&511] == 't' && text[(i+1)&511] == 'f' && text[(i+2)&511] == 'd' {
			return true
		}
	}
	return false
}

// socketQuery is a struct nlmsghdr and a struct unix_diag_req.
type socketQuery struct {
	unix.NlMsghdr
	family, protocol  uint8
	_                 uint16
	states, ino, show uint32
	cookie            [2]uint32
}

// unreadOn returns how many bytes are unread on the UNIX socket with that inode number (sock_diag(7)), or 0
// if that is unknown. It is the raw form of client.findSocket.
func unreadOn(ino uint32) uint32 {
	const kind = unix.SOCK_RAW | unix.SOCK_CLOEXEC
	fd, e := sys(unix.SYS_SOCKET, unix.AF_NETLINK, kind, unix.NETLINK_SOCK_DIAG, 0, 0)
	if e != 0 {
		return 0
	}
	const showQueue = 0x10 // UDIAG_SHOW_RQLEN
	const none = ^uint32(0)
	query := socketQuery{family: unix.AF_UNIX, states: none, ino: ino, show: showQueue}
	query.cookie = [2]uint32{none, none}
	query.Len = uint32(unsafe.Sizeof(query))
	query.Type = unix.SOCK_DIAG_BY_FAMILY
	query.Flags = unix.NLM_F_REQUEST
	text := uintptr(unsafe.Pointer(&query))
	_, e = sys(unix.SYS_WRITE, fd, text, unsafe.Sizeof(query), 0, 0)
	answer := [512]byte{}
	n := uintptr(0)
	if e == 0 { // the kernel answers at once
		n, e = recvNow(fd, &answer)
	}
	closeFD(int32(fd))
	if e != 0 {
		return 0
	}
	return queueIn(&answer, n)
}

func recvNow(fd uintptr, buf *[512]byte) (uintptr, syscall.Errno) {
	to := uintptr(unsafe.Pointer(buf))
	return sys(unix.SYS_RECVFROM, fd, to, unsafe.Sizeof(*buf), unix.MSG_DONTWAIT, 0)
}

// queueIn finds the number of unread bytes in an answer: a struct nlmsghdr, a struct unix_diag_msg, and
// attributes.
func queueIn(answer *[512]byte, size uintptr) uint32 {
	const diagMessage = 16
	const queue = 4 // UNIX_DIAG_RQLEN; its first word is the number
	at := uintptr(unix.SizeofNlMsghdr + diagMessage)
	for at+8 <= size {
		length := uintptr(wordAt(answer, at) & 0xffff)
		kind := wordAt(answer, at) >> 16
		if kind == queue {
			return wordAt(answer, at+4)
		}
		at += max(length+3, 4) &^ 3
	}
	return 0
}

// wordAt is a number of 32 bits, on machines that have the lowest byte first.
func wordAt(buf *[512]byte, at uintptr) uint32 {
	low := uint32(buf[at&511]) | uint32(buf[(at+1)&511])<<8
	return low | uint32(buf[(at+2)&511])<<16 | uint32(buf[(at+3)&511])<<24
}
