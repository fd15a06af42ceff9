// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/mcp"
	"github.com/mcpscope/mcpscope/internal/proc"
)

// ears looks at the stdin of candidates whenever something was written to it. It has a thread of its
// own that does nothing else: what it looks for is there only until the program has read it.
type ears struct {
	ep      int
	scratch *scratch
	changed int // an inotify descriptor, for pipes that can't be registered; -1 if there is none

	mu      sync.Mutex
	nextID  int32
	byID    map[int32]*candidate
	byWatch map[int32]*candidate
	hot     []*candidate
	wake    int // an eventfd

	// decided is called once for a candidate, on our thread; ended when its process has.
	decided func(c *candidate, v mcp.Verdict, why string)
	// worth tells whether it may be listened to without a pause.
	worth func(c *candidate) bool
	ended func(c *candidate)
	// missed is called when it was spoken to, and nothing was seen.
	missed func(c *candidate)
}

// What an event is about, beside the candidate.
const (
	aboutInput = iota
	aboutEnd
	aboutChanges
	aboutWake
)

func newEars() (*ears, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create epoll set: %w", err)
	}
	s, err := newScratch()
	if err != nil {
		_ = unix.Close(ep)
		return nil, err
	}
	e := &ears{ep: ep, scratch: s, changed: -1, byID: map[int32]*candidate{}, byWatch: map[int32]*candidate{}}
	if e.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	if err := e.add(e.wake, unix.EPOLLIN, 0, aboutWake); err != nil {
		return nil, err
	}
	if e.changed, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
		e.changed = -1 // a user may have few; then such a pipe stays open
		return e, nil
	}
	return e, e.add(e.changed, unix.EPOLLIN, 0, aboutChanges)
}

func (e *ears) add(fd int, events uint32, id, about int32) error {
	event := unix.EpollEvent{Events: events, Fd: id, Pad: about}
	if err := unix.EpollCtl(e.ep, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// listenTo begins to look at a candidate's stdin, of which fd is a copy. Each has a set of its own
// within ours: a registration outlives the descriptor it was made with, and can only be ended with
// the set.
func (e *ears) listenTo(c *candidate, fd int) error {
	var err error
	if c.set, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create epoll set: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.nextID++
	c.earID = e.nextID
	e.byID[c.earID] = c
	if c.in.again || c.in.fd >= 0 {
		event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff}
		if err = unix.EpollCtl(c.set, unix.EPOLL_CTL_ADD, fd, &event); err == nil {
			err = e.add(c.set, unix.EPOLLIN|unix.EPOLLET&0xffffffff, c.earID, aboutInput)
		}
	} else {
		err = e.watchPipe(c, fd)
	}
	if err == nil {
		err = e.add(c.pidfd(), unix.EPOLLIN|unix.EPOLLET&0xffffffff, c.earID, aboutEnd)
	}
	if err != nil {
		e.forgetLocked(c)
	}
	return err
}

// again is for a candidate that another process is now.
func (e *ears) again(c *candidate) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.add(c.pidfd(), unix.EPOLLIN|unix.EPOLLET&0xffffffff, c.earID, aboutEnd)
}

// watchPipe is for a copy that is a description of its own: what is registered goes with it, and
// while it is open it is a reader. Changes of a pipe are told without.
func (e *ears) watchPipe(c *candidate, fd int) error {
	wd, err := unix.InotifyAddWatch(e.changed, fmt.Sprintf("/proc/self/fd/%d", fd), unix.IN_MODIFY|unix.IN_CLOSE_WRITE)
	if err != nil {
		return fmt.Errorf("watch a pipe: %w", err)
	}
	c.watches = append(c.watches, int32(wd))
	e.byWatch[int32(wd)] = c
	return nil
}

// forget is for a candidate that is none any more.
func (e *ears) forget(c *candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forgetLocked(c)
}

func (e *ears) forgetLocked(c *candidate) {
	delete(e.byID, c.earID)
	e.cool(c)
	for _, wd := range c.watches {
		if e.byWatch[wd] == c {
			delete(e.byWatch, wd)
			_, _ = unix.InotifyRmWatch(e.changed, uint32(wd)) // gone with the pipe
		}
	}
	c.watches = nil
	if c.set >= 0 {
		_ = unix.Close(c.set)
		c.set = -1
	}
	if c.in.fd >= 0 {
		_ = unix.Close(c.in.fd)
		c.in.fd = -1
	}
}

// A program that waits for its input reads it before we can look, as a rule, and nothing tells then
// that there was any: a registration is silent about what has gone. So a candidate that was not spoken
// to at once has its answers watched, too. When it says something, or a pipe of its was written to,
// the client is about to speak, and is listened to without a pause for a moment.

const (
	// attendAfter is when a candidate counts as one that is spoken to late. Most tools have ended.
	attendAfter = 10 * time.Millisecond
	// spinWithin is how long one is listened to without a pause.
	spinWithin = 5 * time.Millisecond
	// expectWithin is the same for one that was held in vain.
	expectWithin = 50 * time.Millisecond
	// spinsMost bounds that for what is no server.
	spinsMost = 8
)

// attend begins to watch for a candidate's answers.
func (e *ears) attend(c *candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.set < 0 {
		return
	}
	for fd := range 2 {
		if wd, err := unix.InotifyAddWatch(e.changed, proc.DescriptorPath(c.pid(), fd), unix.IN_MODIFY|unix.IN_MASK_ADD); err == nil {
			c.watches = append(c.watches, int32(wd))
			e.byWatch[int32(wd)] = c
		}
	}
	// A socket is silent about writes, but says when there is room again: when somebody has read.
	if fd, err := proc.GetDescriptor(c.pid(), c.pidfd(), 1); err == nil {
		event := unix.EpollEvent{Events: unix.EPOLLOUT | unix.EPOLLET&0xffffffff}
		_ = unix.EpollCtl(c.set, unix.EPOLL_CTL_ADD, fd, &event) // the same socket as stdin is there already
		_ = unix.Close(fd)
	}
}

// listen runs for ever.
func (e *ears) listen() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20) // for root; others have what they have
	events := make([]unix.EpollEvent, 64)
	for {
		wait := -1
		e.mu.Lock()
		if len(e.hot) > 0 {
			wait = 0
		}
		e.mu.Unlock()
		n, err := unix.EpollWait(e.ep, events, wait)
		if err != nil && err != unix.EINTR {
			return // our own set: it can't be
		}
		for _, event := range events[:max(n, 0)] {
			e.heard(event)
		}
		e.spin()
	}
}

func (e *ears) heard(event unix.EpollEvent) {
	e.mu.Lock()
	var found []*candidate
	var events uint32
	switch c := e.byID[event.Fd]; {
	case event.Pad == aboutChanges:
		found = e.changes()
	case event.Pad == aboutWake:
		_, _ = unix.Read(e.wake, make([]byte, 8)) // it is not blocking
	case c == nil:
	case event.Pad == aboutEnd:
		e.mu.Unlock()
		e.ended(c)
		return
	default:
		var inner [4]unix.EpollEvent // none where all has been read since
		n, _ := unix.EpollWait(c.set, inner[:], 0)
		for _, in := range inner[:max(n, 0)] {
			events |= in.Events
		}
		found = append(found, c)
	}
	e.mu.Unlock()
	for _, c := range found {
		e.do(c, func() (mcp.Verdict, string) { return e.look(c, events) })
	}
}

// do looks at one that is still a candidate, and says what came of it.
func (e *ears) do(c *candidate, look func() (mcp.Verdict, string)) {
	e.mu.Lock()
	if c.set < 0 {
		e.mu.Unlock()
		return
	}
	v, why := look()
	if v != mcp.Undecided {
		e.forgetLocked(c)
	}
	e.mu.Unlock()
	if v != mcp.Undecided {
		e.decided(c, v, why)
	}
}

// lookAtAll looks once more at every candidate.
func (e *ears) lookAtAll() {
	e.mu.Lock()
	all := slices.Collect(maps.Values(e.byID))
	e.mu.Unlock()
	for _, c := range all {
		e.do(c, func() (mcp.Verdict, string) { return e.look(c, 0) })
	}
}

// changes are the candidates whose pipes were written to.
func (e *ears) changes() []*candidate {
	var all []*candidate
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(e.changed, buf)
		if err != nil || n <= 0 {
			return all
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			length := int(binary.NativeEndian.Uint32(b[12:]))
			c := e.byWatch[int32(binary.NativeEndian.Uint32(b))]
			if c != nil && !slices.Contains(all, c) {
				all = append(all, c)
			}
			b = b[min(len(b), unix.SizeofInotifyEvent+length):]
		}
	}
}

const hungUp = unix.EPOLLHUP | unix.EPOLLRDHUP | unix.EPOLLERR

// look looks at what is there.
func (e *ears) look(c *candidate, events uint32) (mcp.Verdict, string) {
	fd, err := c.in.open(c.pid(), c.pidfd())
	if err != nil {
		c.release() // it has another stdin by now, or none
		return mcp.Undecided, ""
	}
	defer c.in.done(fd)
	if seen := e.scratch.peek(fd, c.in.socket); len(seen) > 0 {
		return c.judge(seen)
	}
	if events&hungUp != 0 {
		c.release()
		return mcp.Undecided, ""
	}
	if c.spins < spinsMost && c.spinFD < 0 && e.worth(c) {
		c.spins++
		e.heat(c, spinWithin)
	}
	return mcp.Undecided, ""
}

// heat begins to listen without a pause. A copy of stdin is kept that long.
func (e *ears) heat(c *candidate, within time.Duration) {
	fd, err := c.in.open(c.pid(), c.pidfd())
	if err != nil {
		return
	}
	c.spinFD, c.spinUntil = fd, time.Now().Add(within)
	e.hot = append(e.hot, c)
}

// calm waits until nobody is expected to be spoken to, for a bounded time: what takes much of a processor
// has time until then.
func (e *ears) calm(within time.Duration) {
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		e.mu.Lock()
		busy := len(e.hot) > 0
		e.mu.Unlock()
		if !busy {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (e *ears) cool(c *candidate) {
	if c.spinFD >= 0 {
		c.in.done(c.spinFD)
		c.spinFD = -1
	}
}

// expect listens without a pause to one that was held in vain: a client that starts many servers at once
// speaks to the first when it has started the last.
func (e *ears) expect(c *candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.set >= 0 && c.spinFD < 0 {
		e.heat(c, expectWithin)
		_, _ = unix.Write(e.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd of ours
	}
}

func (c *candidate) judge(seen []byte) (mcp.Verdict, string) {
	v, why := c.stream.Look(seen)
	c.heard = true
	if v == mcp.Undecided && seen[len(seen)-1] == '\n' {
		c.release() // whole lines, and not what it would be held for
	}
	return v, why
}

// spin looks once more at those that are about to be spoken to.
func (e *ears) spin() {
	e.mu.Lock()
	now := time.Now()
	var found, missed []*candidate
	e.hot = slices.DeleteFunc(e.hot, func(c *candidate) bool {
		if c.spinFD < 0 {
			return true
		}
		if c.in.readable(c.spinFD) {
			found = append(found, c)
			return false
		}
		if now.After(c.spinUntil) {
			e.cool(c)
			if c.spins > 0 {
				missed = append(missed, c)
			}
		}
		return c.spinFD < 0
	})
	e.mu.Unlock()
	for _, c := range missed {
		e.missed(c)
	}
	for _, c := range found {
		e.do(c, func() (mcp.Verdict, string) {
			if seen := e.scratch.peek(c.spinFD, c.in.socket); c.spinFD >= 0 && len(seen) > 0 {
				e.cool(c)
				return c.judge(seen)
			}
			return mcp.Undecided, ""
		})
	}
}
