package e2e

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const patience = patienceSeconds * time.Second

// A board is state that others wait for: they are woken by the change itself.
type board struct {
	mu      sync.Mutex
	changed chan struct{}
}

func (b *board) update(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

// wait returns whether done, called under the lock, became true in time.
func (b *board) wait(limit time.Duration, done func() bool) bool {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		if done() {
			b.mu.Unlock()
			return true
		}
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		select {
		case <-changed:
		case <-timeout.C:
			return false
		}
	}
}

// pollFor waits until one of the descriptors has what is asked of it.
func pollFor(limit time.Duration, fds ...unix.PollFd) bool {
	deadline := time.Now().Add(limit)
	for {
		ts := unix.NsecToTimespec(int64(max(time.Until(deadline), 0)))
		n, err := unix.Ppoll(fds, &ts, nil)
		if err != unix.EINTR { // the Go runtime interrupts its own threads
			return n > 0
		}
	}
}

// A process is held by its pidfd, so that its pid can't come to mean another.
type process struct {
	pid, fd int
}

func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	return &process{pid: pid, fd: fd}, nil
}

func (p *process) close() { unix.Close(p.fd) }

// ended waits until the process has exited, reaped or not.
func (p *process) ended(limit time.Duration) bool {
	return pollFor(limit, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
}

// signal does nothing to a process that has ended.
func (p *process) signal(sig syscall.Signal) {
	_ = unix.PidfdSendSignal(p.fd, sig, nil, 0)
}

// A semaphore bounds the work that goes on at a time; heavy work takes several.
type semaphore struct {
	taking sync.Mutex // one taker at a time, or two could each hold half
	tokens chan struct{}
}

func newSemaphore(n int) *semaphore {
	return &semaphore{tokens: make(chan struct{}, n)}
}

func (s *semaphore) take(n int) (release func()) {
	n = min(n, cap(s.tokens))
	s.taking.Lock()
	defer s.taking.Unlock()
	for range n {
		s.tokens <- struct{}{}
	}
	return func() {
		for range n {
			<-s.tokens
		}
	}
}
