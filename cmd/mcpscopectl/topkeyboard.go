//go:build linux

package main

import (
	"golang.org/x/sys/unix"
)

// restOfKey is how long the rest of a key may be under way, in milliseconds. An escape that
// nothing has followed for so long was the key itself.
const restOfKey = 50

// keys sends what is typed, until the terminal has gone. In the background it does not read, which
// would stop the process, until it is told that the terminal is ours again.
func (s *screen) keys(to chan<- rune, again <-chan struct{}) {
	defer close(to)
	var sent []byte
	for {
		var err error
		if sent, err = s.typed(sent, again); err != nil {
			return
		}
		for len(sent) > 0 {
			key, rest, more := nextKey(sent)
			if more {
				break
			}
			to <- key
			sent = rest
		}
		if len(sent) > 0 && !s.ready(restOfKey) {
			key, _, _ := nextKey(sent)
			to <- key
			sent = nil
		}
	}
}

// typed waits for more, and adds it to what was sent before.
func (s *screen) typed(sent []byte, again <-chan struct{}) ([]byte, error) {
	for {
		s.ready(-1)
		if !s.foreground() && !s.gone() {
			<-again
			continue
		}
		var buf [256]byte
		n, err := unix.Read(s.in, buf[:])
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0:
			return nil, unix.EIO
		case err != nil:
			return nil, err
		default:
			return append(sent, buf[:n]...), nil
		}
	}
}

// ready waits for something to read.
func (s *screen) ready(ms int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.in), Events: unix.POLLIN}}, ms)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// gone tells whether the terminal has hung up.
func (s *screen) gone() bool {
	fds := []unix.PollFd{{Fd: int32(s.in)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0
}
