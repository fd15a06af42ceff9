// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package page

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Message asks a gateway's guard to do something about a server.
type Message struct {
	Word       byte
	HasPayload bool // Kept.Payload is among the descriptors, behind Kept.Memory
	HasStdin   bool // and Kept.Stdin behind these
	HasStdout  bool
	Number     uint32 // of the server: the watcher gives the numbers
}

// MessageSize is the size of a whole Message. All other messages are one byte.
const MessageSize = unsafe.Sizeof(Message{})

// KeptAt is where the memory file has the Kept of a server: behind the configuration, so that a gateway with
// a small RLIMIT_FSIZE can have servers. The list is not bounded, so that it can have any number of them.
func (p *Page) KeptAt(number uint32) int64 {
	first := Size + (int64(p.size)+keptSize-1)/keptSize*keptSize
	return first + int64(number)*keptSize
}

// Servers are the Kept of all servers by their number, as the guard has written them.
func (p *Page) Servers() ([]Kept, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(p.Memory), &st); err != nil {
		return nil, fmt.Errorf("read the servers: %w", err)
	}
	all := make([]Kept, max(st.Size-p.KeptAt(0), 0)/keptSize)
	if len(all) == 0 {
		return nil, nil
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(&all[0])), len(all)*int(keptSize))
	if err := readAt(int(p.Memory), text, p.KeptAt(0)); err != nil {
		return nil, fmt.Errorf("read the servers: %w", err)
	}
	return all, nil
}

// ForgetServers removes all Kept from the page's file, for a new guard, which has no descriptor of any
// server yet.
func (p *Page) ForgetServers() error {
	if err := unix.Ftruncate(int(p.Memory), p.KeptAt(0)); err != nil {
		return fmt.Errorf("forget the servers: %w", err)
	}
	return nil
}

// Keep has a gateway's guard keep a server under that number, and returns when it does. An error other than
// ESRCH is the guard's: EMFILE if it has no descriptor left. With ESRCH the guard is dead.
func (g *Guard) Keep(number int, k Kept) error {
	m := Message{
		Word: WordKeep, HasPayload: k.Payload >= 0, HasStdin: k.Stdin >= 0, HasStdout: k.Stdout >= 0,
		Number: uint32(number),
	}
	return g.ask(&m, k.FDs())
}

// Drop has a gateway's guard close what it keeps of a server. The number is free afterwards.
func (g *Guard) Drop(number int) error {
	m := Message{Word: WordDrop, Number: uint32(number)}
	return g.ask(&m, passNone())
}

// ask sends a message and waits for the answer. Without that, messages that do not fit into the socket would
// be lost. The kernel bounds the number of descriptors that are on their way, too (ETOOMANYREFS).
func (g *Guard) ask(m *Message, fds PassedFDs) error {
	_ = unix.PidfdSendSignal(g.PIDFD, unix.SIGCONT, nil, 0) // see Send
	for {
		errno := g.pass(m, MessageSize, fds)
		if errno == 0 {
			break
		}
		if errno != unix.EAGAIN { // by news that it has not read yet
			return g.lost(errno)
		}
		if err := g.await(unix.POLLOUT); err != nil {
			return err
		}
	}
	var answer [1]byte
	for {
		if err := g.await(unix.POLLIN); err != nil {
			return err
		}
		n, _, err := unix.Recvfrom(g.Sock, answer[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
		case err != nil:
			return g.lost(err)
		case n == 0:
			return g.lost(io.EOF)
		case answer[0] != 0:
			return fmt.Errorf("the guard: %w", unix.Errno(answer[0]))
		default:
			return nil
		}
	}
}

// lost returns ESRCH for a socket whose other end is closed.
func (g *Guard) lost(err error) error {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the guard: %w", unix.ESRCH)
	}
	return fmt.Errorf("tell the guard: %w", err)
}

// await waits for the socket as long as the guard lives.
func (g *Guard) await(events int16) error {
	for {
		fds := []unix.PollFd{{Fd: int32(g.Sock), Events: events}, {Fd: int32(g.PIDFD), Events: unix.POLLIN}}
		_, err := unix.Ppoll(fds, nil, nil)
		switch {
		case err != nil && err != unix.EINTR:
			return fmt.Errorf("wait for the guard: %w", err)
		case fds[0].Revents != 0:
			return nil
		case fds[1].Revents != 0:
			return fmt.Errorf("the guard: %w", unix.ESRCH)
		}
	}
}

// PassedFDs are the descriptors that go with a message, in their order; -1 for none.
type PassedFDs [4]int32

// FDs are the descriptors of a server as they go with WordKeep.
func (k Kept) FDs() PassedFDs { return PassedFDs{k.Memory, k.Payload, k.Stdin, k.Stdout} }

func passNone() PassedFDs { return PassedFDs{-1, -1, -1, -1} }

// Rights is a struct cmsghdr and its descriptors.
type Rights struct {
	Header unix.Cmsghdr
	FDs    PassedFDs
}

// pass sends the first bytes of a message with those of the descriptors that there are. It does not wait, and
// needs no Go runtime.
func (g *Guard) pass(m *Message, size uintptr, fds PassedFDs) unix.Errno {
	r := Rights{Header: unix.Cmsghdr{Level: unix.SOL_SOCKET, Type: unix.SCM_RIGHTS}}
	n := 0
	for _, fd := range fds {
		if fd >= 0 && n < len(r.FDs) { // as the compiler does not know
			r.FDs[n] = fd
			n++
		}
	}
	text := struct{ base, size uintptr }{uintptr(unsafe.Pointer(m)), size} // struct iovec
	header := MessageHeader{Texts: uintptr(unsafe.Pointer(&text)), TextCount: 1}
	if n > 0 { // otherwise there is no control message
		size := unsafe.Sizeof(r.Header) + uintptr(n)*unsafe.Sizeof(r.FDs[0])
		r.Header.Len = uint64(size)
		header.Control = uintptr(unsafe.Pointer(&r))
		header.ControlSize = (size + 7) &^ 7
	}
	addr := uintptr(unsafe.Pointer(&header))
	const how = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(g.Sock), addr, how)
	return errno
}

// MessageHeader is the kernel's struct msghdr, in words. unix.Msghdr has pointers, which raw code must not
// store.
type MessageHeader struct {
	Name, NameSize       uintptr
	Texts, TextCount     uintptr
	Control, ControlSize uintptr
	Flags                uintptr
}
