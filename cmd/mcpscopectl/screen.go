//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// screen is a terminal that is drawn on as a whole. It is the user's again after leave, whatever
// was drawn. ^C, ^Z and ^\ stay the terminal's business, and come as signals.
type screen struct {
	in, out int
	was     unix.Termios
	entered bool
	drawn   string
}

// Control sequences that every terminal of the last decades has (xterm's, ECMA-48).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the other screen, no cursor, no wrapping: a width that we guess wrong spoils one line
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	toTop       = "\x1b[H"
	toLine      = "\x1b[%dH" // from 1; a newline would depend on the terminal's modes
	clearLine   = "\x1b[K"
	bold        = "\x1b[1m"
	reversed    = "\x1b[7m"
	normal      = "\x1b[m"
)

// newScreen needs a terminal at both ends.
func newScreen() (*screen, error) {
	s := &screen{in: 0, out: 1}
	for fd, name := range map[int]string{s.in: "stdin", s.out: "stdout"} {
		was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return nil, fmt.Errorf("%s is no terminal", name)
		}
		s.was = *was
	}
	if term := os.Getenv("TERM"); term == "" || term == "dumb" {
		return nil, fmt.Errorf("the terminal can't be drawn on (TERM=%s)", term)
	}
	return s, nil
}

// foreground tells whether the terminal is ours: who is in the background and touches it is
// stopped.
func (s *screen) foreground() bool {
	group, err := unix.IoctlGetInt(s.out, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// enter takes the terminal, if it is ours.
func (s *screen) enter() error {
	if s.entered || !s.foreground() {
		return nil
	}
	raw := s.was
	raw.Iflag &^= unix.IXON
	raw.Lflag &^= unix.ECHO | unix.ICANON | unix.IEXTEN
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := s.set(&raw); err != nil {
		return err
	}
	s.entered, s.drawn = true, ""
	s.write(enterScreen)
	return nil
}

// leave gives it back.
func (s *screen) leave() {
	if s.entered && s.foreground() {
		s.write(leaveScreen)
		_ = s.set(&s.was) // the terminal has gone
	}
	s.entered = false
}

func (s *screen) set(to *unix.Termios) error {
	for {
		if err := unix.IoctlSetTermios(s.out, unix.TCSETSW, to); err != unix.EINTR {
			return os.NewSyscallError("TCSETSW", err)
		}
	}
}

// frame is what is on the screen: a line of heads, one that is marked.
type frame struct {
	lines                []string
	heads, marked, width int
}

// draw draws nothing again that is there already.
func (s *screen) draw(f frame) {
	if !s.entered {
		return
	}
	var b strings.Builder
	b.WriteString(toTop)
	for i, line := range f.lines {
		if i > 0 {
			fmt.Fprintf(&b, toLine, i+1)
		}
		b.WriteString(clearLine) // first: behind a line of full width it would take the last cell
		switch i {
		case f.heads:
			b.WriteString(bold + line + normal)
		case f.marked:
			b.WriteString(reversed + padded(line, f.width) + normal)
		default:
			b.WriteString(line)
		}
	}
	if text := b.String(); text != s.drawn {
		s.drawn = text
		s.write(text)
	}
}

// size is that of most terminals where this one does not know its own.
func (s *screen) size() (width, height int) {
	width, height = windowOf(s.out)
	if width == 0 || height == 0 {
		return 80, 24
	}
	return width, height
}

// write writes all in one piece, as a rule. A terminal that has gone says so by SIGHUP.
func (s *screen) write(text string) {
	for b := []byte(text); len(b) > 0; {
		n, err := unix.Write(s.out, b)
		if err != nil && err != unix.EINTR && err != unix.EAGAIN {
			return
		}
		b = b[max(n, 0):]
	}
}
