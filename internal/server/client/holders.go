// SPDX-License-Identifier: Apache-2.0

package client

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
	"github.com/mcpscope/mcpscope/internal/kernel/linux"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/page"
	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// FindHolder finds a process that can write to stdin after the client has died: then it is the client. A
// process of another server is none: its client has leaked the descriptor to it. outer is the tag of the
// server that the client itself belongs to, or 0. ours are other
// processes that do not count: launcher and guard, which cannot be examined. The kernel finds the peer of a
// socket in our network namespace alone (sock_diag(7)).
func (in *Side) FindHolder(p freeze.Target, outer freeze.Tag, ours []int) (pid int, found page.Holder) {
	return confirm(lookRest, func() (int, page.Holder) { return in.lookForHolder(p, outer, ours) })
}

// lookRest is the time between two looks, and looksMost bounds their number.
const (
	lookRest  = 100 * time.Millisecond
	looksMost = 10
)

// confirm repeats a look that finds a holder until two in a row find the same one. A process has what its
// parent has until its execve(2), and a launcher has what its server inherits until that runs: neither is a
// client.
func confirm(rest time.Duration, look func() (int, page.Holder)) (pid int, found page.Holder) {
	pid, found = look()
	for range looksMost {
		if found != page.LivingHolder {
			break
		}
		time.Sleep(rest)
		before := pid
		pid, found = look()
		if pid == before {
			break
		}
	}
	return pid, found
}

// lookForHolder looks once.
func (in *Side) lookForHolder(p freeze.Target, outer freeze.Tag, ours []int) (pid int, found page.Holder) {
	if in.Stdin.Unheld() { // the server has closed it
		return 0, page.NoHolder
	}
	inside, err := p.Members()
	if err != nil {
		return 0, page.UnknownHolder
	}
	end := in.File
	if in.Socket {
		s, known := findSocket(end.Ino)
		if s.peer == 0 && known {
			return 0, page.NoHolder
		}
		if s.peer == 0 {
			return 0, page.UnknownHolder
		}
		end.Ino = uint64(s.peer)
	}
	// A write end that is open, and that the search does not find, is in a message on its way (unix(7)) or in
	// a process that is hidden from us. So it has to be closed, or found inside.
	isAccountedFor := in.Stdin.Fired() || in.IsOnlySeen() && in.HasHungUp()
	isUnclear := false
	err = proc.Each(func(other int) bool {
		if other == os.Getpid() || slices.Contains(ours, other) {
			return true
		}
		has, err := holds(other, end, in.Socket)
		isHidden := errors.Is(err, os.ErrPermission)
		carried := freeze.TagOn(other)
		isOfServer := carried.IsTag() && carried != outer
		switch {
		case slices.Contains(inside, other) || isOfServer:
			isAccountedFor = isAccountedFor || has || isHidden
		case has:
			pid = other
		case isHidden && in.isBeside(other):
			isUnclear = true
		}
		return pid == 0
	})
	switch {
	case pid != 0:
		return pid, page.LivingHolder
	case err != nil || isUnclear || !isAccountedFor:
		return 0, page.UnknownHolder
	}
	return 0, page.NoHolder
}

// Ends are the pipes that a process can write to, and its sockets.
type Ends map[protocol.File]bool

// EndsOf reads all descriptors of a process: that takes 1 ms for 500 of them.
func EndsOf(pid int) (Ends, error) {
	ends := Ends{}
	err := proc.EachDescriptor(pid, func(_ int, link string) bool {
		f, kind := Identify(unix.AT_FDCWD, link)
		if kind == unix.S_IFSOCK || kind == unix.S_IFIFO && isWritable(link) {
			ends[f] = true
		}
		return true
	})
	return ends, err
}

// isWritable reads the mode of a descriptor from the link in /proc/PID/fd (proc_pid_fd(5)).
func isWritable(link string) bool {
	var st unix.Stat_t
	return unix.Lstat(link, &st) == nil && st.Mode&0o200 != 0
}

// HeldIn reports whether a process with these ends can write to stdin. It is false if that can't be found
// out.
func (in *Side) HeldIn(ends Ends) bool {
	end := in.File
	if in.Socket {
		s, _ := findSocket(end.Ino) // none, if the kernel does not know it
		if s.peer == 0 {
			return false
		}
		end.Ino = uint64(s.peer)
	}
	return ends[end]
}

// End is the other end of a pipe or socket, which a peer has.
type End struct {
	file   protocol.File
	socket bool
	known  bool // false if it was not found
}

// EndOpposite returns the other end of a pipe, or of a UNIX socket.
func EndOpposite(f protocol.File, socket bool) End {
	if !socket {
		return End{file: f, known: f != protocol.File{}}
	}
	s, _ := findSocket(f.Ino) // none, if the kernel does not know it
	f.Ino = uint64(s.peer)
	return End{file: f, socket: true, known: s.peer != 0}
}

// IsKnown reports whether the end was found.
func (e End) IsKnown() bool { return e.known }

// In reports whether the end is among these.
func (e End) In(ends Ends) bool { return e.known && ends[e.file] }

// HasEnds reports whether a process can write to one end, and read from another one. An unknown end
// counts as had: it may be a socket of another kind.
func HasEnds(pid int, in, out End) (writes, reads bool, err error) {
	writes = !in.known
	reads = !out.known
	err = proc.EachDescriptor(pid, func(_ int, link string) bool {
		f, _ := Identify(unix.AT_FDCWD, link)
		writes = writes || f == in.file && (in.socket || isWritable(link))
		reads = reads || f == out.file && (out.socket || isReadable(link))
		return !writes || !reads
	})
	return writes, reads, err
}

// isReadable is isWritable for the other direction.
func isReadable(link string) bool {
	var st unix.Stat_t
	return unix.Lstat(link, &st) == nil && st.Mode&0o400 != 0
}

// FindPeer finds the descriptor of a process that is the other end of a UNIX socket with that inode number.
func FindPeer(pid int, ino uint64) (number int, found bool) {
	s, _ := findSocket(ino) // none, if the kernel does not know it
	if s.peer == 0 {
		return -1, false
	}
	_ = proc.EachDescriptor(pid, func(fd int, link string) bool { // it may be another user's
		f, kind := Identify(unix.AT_FDCWD, link)
		found = kind == unix.S_IFSOCK && f.Ino == uint64(s.peer)
		number = fd
		return !found
	})
	return number, found
}

// PeerOf is the inode number of the other end of a UNIX socket, 0 for none.
func PeerOf(ino uint64) uint64 {
	s, _ := findSocket(ino) // none, if the kernel does not know it
	return uint64(s.peer)
}

// isBeside: another user's process cannot be inspected. Only one in the client's cgroup can be the client.
func (in *Side) isBeside(pid int) bool {
	where, err := proc.ReadCgroup(pid)
	return err != nil || where == in.Where
}

// holds compares each descriptor of a process.
func holds(pid int, end protocol.File, socket bool) (found bool, err error) {
	err = proc.EachDescriptor(pid, func(_ int, link string) bool {
		f, _ := Identify(unix.AT_FDCWD, link)
		found = f == end && (socket || isWritable(link))
		return !found
	})
	return found, err
}

// socket is a UNIX socket, as the kernel describes it.
type socket struct {
	peer   uint32 // its inode number, 0 for none
	unread uint32 // bytes
	stream bool   // and it is, or was, connected
}

// findSocket asks the kernel for the socket with that inode number. known is false if it does not know it, or
// can't be asked.
func findSocket(ino uint64) (s socket, known bool) {
	fd, _ := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	defer unix.Close(fd)
	// the kernel answers at once; it can't fail
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	r := diagRequest{Family: unix.AF_UNIX, Ino: uint32(ino), Show: showBoth}
	r.Len = uint32(binary.Size(r))
	r.Type = unix.SOCK_DIAG_BY_FAMILY
	r.Flags = unix.NLM_F_REQUEST
	r.States = math.MaxUint32 // sockets in any state
	r.Cookie = math.MaxUint64 // no cookie
	e := binary.NativeEndian
	request, _ := binary.Append(nil, e, r) // it can't fail: every field has a size
	if unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return s, false
	}
	buf := make([]byte, 4096)
	n, _, _ := unix.Recvfrom(fd, buf, 0) // -1 after an error
	if n < unix.SizeofNlMsghdr+answerSize || e.Uint16(buf[4:]) != unix.SOCK_DIAG_BY_FAMILY {
		return s, false
	}
	answer := buf[unix.SizeofNlMsghdr:n]
	s.stream = answer[1] == unix.SOCK_STREAM && answer[2] == established
	for attrs := answer[answerSize:]; len(attrs) >= 8; {
		switch e.Uint16(attrs[2:]) {
		case attributePeer:
			s.peer = e.Uint32(attrs[4:])
		case attributeQueue:
			s.unread = e.Uint32(attrs[4:])
		}
		size := max(int(e.Uint16(attrs)), 4)
		attrs = attrs[min((size+3)&^3, len(attrs)):]
	}
	return s, true
}

// The parts of linux/unix_diag.h that are used.
const (
	showBoth       = 0x4 | 0x10 // UDIAG_SHOW_PEER, UDIAG_SHOW_RQLEN
	attributePeer  = 2          // UNIX_DIAG_PEER
	attributeQueue = 4          // UNIX_DIAG_RQLEN; its first word is the number of unread bytes
	answerSize     = 16         // struct unix_diag_msg
	established    = 1          // TCP_ESTABLISHED, which a socket stays when its peer is closed
)

// diagRequest is a struct nlmsghdr and a struct unix_diag_req.
type diagRequest struct {
	unix.NlMsghdr
	Family, Protocol  uint8
	_                 uint16
	States, Ino, Show uint32
	Cookie            uint64
}

// OtherEnd is the other end of a descriptor of another process.
type OtherEnd int

const (
	// NoOtherEnd is that of a file, of /dev/null, and of no descriptor.
	NoOtherEnd OtherEnd = iota
	// HeldEnd is one that a process has, or may have: nobody can tell for a named FIFO, a terminal, and a
	// socket of another kind or network namespace.
	HeldEnd
	// DeadEnd is one that no process has any more.
	DeadEnd
)

// OtherEndOf looks for the other end of descriptor 0 or 1 of another process.
func OtherEndOf(pid, number int) OtherEnd {
	link := proc.DescriptorPath(pid, number)
	f, kind := Identify(unix.AT_FDCWD, link)
	switch kind {
	case unix.S_IFSOCK:
		s, _ := findSocket(f.Ino)
		if s.stream && s.peer == 0 {
			return DeadEnd
		}
		return HeldEnd
	case unix.S_IFIFO:
		if isDeadPipe(pid, number, f) {
			return DeadEnd
		}
		return HeldEnd
	case unix.S_IFCHR:
		const memory = 1 // the major number of /dev/null and its like
		var st unix.Stat_t
		if err := unix.Stat(link, &st); err != nil || unix.Major(st.Rdev) != memory {
			return HeldEnd
		}
	}
	return NoOtherEnd
}

// isDeadPipe has the same end once more for a moment, which does not affect the other end.
func isDeadPipe(pid, number int, f protocol.File) bool {
	// 0 is O_RDONLY, and 1 is O_WRONLY
	fd, err := unix.Open(proc.DescriptorPath(pid, number), number|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.EACCES { // another user's, for root without CAP_DAC_OVERRIDE
		process, _ := unix.PidfdOpen(pid, 0) // -1, if it has ended
		fd, _ = unix.PidfdGetfd(process, number, 0)
		_ = unix.Close(process) // it was only opened
	}
	defer unix.Close(fd)
	var on unix.Statfs_t // a FIFO reports no hang-up after an open
	isUnnamed := unix.Fstatfs(fd, &on) == nil && on.Type == unix.PIPEFS_MAGIC
	now, _ := Identify(fd, "")
	// poll(2) always reports POLLHUP and POLLERR
	return isUnnamed && now == f && linux.AwaitWithin(fd, 0, 0)
}

// Closed reports whether no process has the other end of a descriptor of another process, 0 or 1. It is
// false if that cannot be found out.
func Closed(pid, number int) bool { return OtherEndOf(pid, number) == DeadEnd }

// AwaitRoom waits until a process can write to its descriptor, and returns false if that takes too long.
func AwaitRoom(pid, number int, within time.Duration) bool {
	link := proc.DescriptorPath(pid, number)
	fd, err := unix.Open(link, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err == unix.ENXIO { // a socket
		process, _ := unix.PidfdOpen(pid, 0) // -1, if it has ended
		defer unix.Close(process)
		fd, err = unix.PidfdGetfd(process, number, 0)
	}
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	return linux.AwaitWithin(fd, unix.POLLOUT, within)
}
