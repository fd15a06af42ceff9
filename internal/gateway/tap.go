// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/gateway/mcp"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
)

// tap copies what is written to a descriptor, and takes nothing out of it. Its thread waits within tee(2) or
// recv(2), not in poll(2): so the kernel makes the copy as soon as the thread is woken. The same write wakes
// the program, and the way back to Go takes longer than the program takes to read.
type tap struct {
	fd     int
	socket bool
	writer int    // pid of the process that writes, as a rule
	pipe   [2]int // for tee(2)

	thread      int           // its id
	wanted      chan struct{} // a request for a copy; closed at the end
	copied      chan unread   // has room for one
	arrived     int           // an eventfd that is readable when copied has a copy
	isRequested bool          // a copy is wanted, or has arrived
	stopped     atomic.Bool
	ended       chan struct{}
}

// unread is the unread input at some moment.
type unread struct {
	text   []byte
	closed bool // nothing was unread, and no process can write any more
}

// openTap starts the thread, which begins with a first copy: it waits within that call when openTap returns,
// or is about to. The tap has its own fd from then on, if err is nil.
func openTap(fd int, socket bool, writer int) (t *tap, err error) {
	t = &tap{
		fd: fd, socket: socket, writer: writer, pipe: [2]int{-1, -1}, arrived: -1,
		wanted: make(chan struct{}, 1), copied: make(chan unread, 1), ended: make(chan struct{}),
		isRequested: true,
	}
	t.arrived, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil && !socket {
		err = unix.Pipe2(t.pipe[:], unix.O_CLOEXEC) // with O_NONBLOCK tee(2) would not wait
	}
	if err != nil {
		closeAll(t.arrived)
		return nil, err
	}
	started := make(chan int)
	go t.run(started)
	t.thread = <-started
	return t, nil
}

// requestCopy has the next copy made.
func (t *tap) requestCopy() {
	if !t.isRequested {
		t.isRequested = true
		t.wanted <- struct{}{}
	}
}

// receive returns the copy that has arrived.
func (t *tap) receive() unread {
	var count [8]byte
	_, _ = unix.Read(t.arrived, count[:]) // it is readable
	t.isRequested = false
	return <-t.copied
}

// close ends the thread. Its call is interrupted, and begins again (SA_RESTART): so the descriptor becomes
// one that tee(2) and recv(2) refuse, and that is readable. Go's runtime interrupts threads by SIGURG, too.
func (t *tap) close() {
	t.stopped.Store(true)
	close(t.wanted)
	t.setArrived()
	_ = unix.Dup3(t.arrived, t.fd, unix.O_CLOEXEC)        // both are open
	_ = unix.Tgkill(unix.Getpid(), t.thread, unix.SIGURG) // or it has ended
	<-t.ended
	closeAll(t.fd, t.arrived, t.pipe[0], t.pipe[1])
}

func (t *tap) setArrived() {
	one := [8]byte{1}
	_, _ = unix.Write(t.arrived, one[:]) // its count is small
}

// buffers has those of taps that have ended. A garbage collection would stop the thread that is to copy.
var buffers = sync.Pool{New: func() any {
	buf := make([]byte, mcp.LineMost)
	return &buf
}}

func (t *tap) run(started chan<- int) {
	defer close(t.ended)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	raisePriority()
	kept := buffers.Get().(*[]byte)
	defer buffers.Put(kept)
	buf := *kept
	t.followWriter()
	started <- unix.Gettid()
	for isWanted := true; isWanted; _, isWanted = <-t.wanted {
		u := t.copy(buf)
		if t.stopped.Load() {
			return
		}
		t.copied <- u
		t.setArrived()
	}
}

// copy waits for something to copy. The text is valid until the next call.
func (t *tap) copy(buf []byte) unread {
	wait := false
	for !t.stopped.Load() {
		if wait {
			t.poll(-1)
		}
		n, err := copyUnread(t.fd, t.socket, t.pipe[1], buf)
		switch {
		case n > 0 && t.socket:
			return unread{text: buf[:n]}
		case n > 0:
			n, _ = unix.Read(t.pipe[0], buf) // tee(2) has filled it
			return unread{text: buf[:max(n, 0)]}
		case err == unix.EAGAIN: // the program has made its socket non-blocking, for all that have it
			wait = true
		case err == unix.EINTR:
		case err == nil && !t.socket && t.poll(0)&unix.POLLHUP == 0:
			// The program has read between two steps of tee(2), or a FIFO has no writer yet, which would be
			// the same at once.
			wait = !wait
		default: // or there is an error, of which a socket has one (ECONNRESET)
			return unread{closed: true}
		}
	}
	return unread{}
}

// poll waits for input, -1, or not at all, 0.
func (t *tap) poll(milliseconds int) (events int16) {
	polls := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLIN}}
	_, _ = unix.Poll(polls, milliseconds) // it may be interrupted
	return polls[0].Revents
}

// copyUnread copies what is unread from a socket to buf, or from a pipe to another one. It waits unless fd
// does not block.
func copyUnread(fd int, socket bool, pipe int, buf []byte) (n int, err error) {
	if socket {
		return peekSocket(fd, buf, 0)
	}
	size, err := unix.Tee(fd, pipe, len(buf), 0)
	return int(size), err
}

// peekSocket is unix.Recvfrom without the address, which that allocates.
func peekSocket(fd int, buf []byte, flags int) (n int, err error) {
	data := unsafe.Pointer(unsafe.SliceData(buf))
	r, _, errno := unix.Syscall6(
		unix.SYS_RECVFROM, uintptr(fd), uintptr(data), uintptr(len(buf)), uintptr(flags|unix.MSG_PEEK), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// raisePriority has the calling thread run as soon as it is woken. It runs for some microseconds at a time.
func raisePriority() {
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	if unix.SchedSetAttr(0, &attr, 0) == nil {
		return
	}
	// Linux 6.12: a task with a short slice preempts one with a longer slice
	short := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Runtime: 100_000}
	_ = unix.SchedSetAttr(0, &short, 0) // the thread is slower without it
}

// followWriter has the calling thread run where the writer runs: then a write has the writer make place for
// it. Another processor that is idle takes some 30 us to wake, in which the program has read.
func (t *tap) followWriter() {
	st, err := proc.ReadStat(t.writer)
	if err != nil {
		return // it has ended
	}
	var there unix.CPUSet
	there.Set(st.Processor)
	_ = unix.SchedSetaffinity(0, &there) // the watcher may not run there
}
