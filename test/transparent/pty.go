// SPDX-License-Identifier: Apache-2.0

package transparent

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
	"github.com/mcpscope/mcpscope/test/pace"
)

// A Terminal is a pty with a command on it that leads its session, as a terminal emulator
// starts one.
type Terminal struct {
	Cmd *exec.Cmd

	t      testing.TB
	master *os.File

	mu   sync.Mutex
	text []byte
	more chan struct{} // closed by the next output
	seen int           // up to here the test has looked
}

// startTerminal starts the command in a group of the site.
func startTerminal(t *testing.T, site *escape.Site, command []string) *Terminal {
	t.Helper()
	cmd := site.Command(command...)
	return StartTerminal(t, cmd, func() error { return escape.StartIn(site.Unique("client"), cmd) })
}

// StartTerminal starts a command on a terminal by start.
func StartTerminal(t testing.TB, cmd *exec.Cmd, start func() error) *Terminal {
	t.Helper()
	master, slave, err := openPty()
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	term := &Terminal{Cmd: cmd, t: t, master: master, more: make(chan struct{})}
	term.Resize(24, 80)
	cmd.Env = append(cmd.Environ(), "TERM=xterm", "PS1=PROMPT ")
	cmd.Stdin = slave
	cmd.Stdout = slave
	cmd.Stderr = slave
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Setctty = true
	if err := start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		term.HangUp()
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		if t.Failed() {
			text := term.All()
			t.Logf("on the terminal of %q, in the end:\n%q", cmd.Args, text[max(len(text)-8000, 0):])
		}
	})
	go term.read()
	return term
}

func openPty() (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	master = os.NewFile(uintptr(m), "master")
	if err = unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return master, nil, os.NewSyscallError("TIOCSPTLCK", err)
	}
	s, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return master, nil, os.NewSyscallError("TIOCGPTPEER", errno)
	}
	return master, os.NewFile(s, "slave"), nil
}

func (p *Terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := p.master.Read(buf)
		p.mu.Lock()
		p.text = append(p.text, buf[:n]...)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
		if err != nil { // EIO: no process has the terminal any more
			return
		}
	}
}

// Find waits for text beyond what was found before.
func (p *Terminal) Find(text string, limit time.Duration) bool {
	timeout := pace.After(limit)
	for {
		p.mu.Lock()
		at := strings.Index(string(p.text[p.seen:]), text)
		more := p.more
		if at >= 0 {
			p.seen += at + len(text)
		}
		p.mu.Unlock()
		if at >= 0 {
			return true
		}
		select {
		case <-more:
		case <-timeout:
			return false
		}
	}
}

// Expect is Find for texts that must come, one after the other.
func (p *Terminal) Expect(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !p.Find(text, 2*escape.Patience) { // there may be fork bombs beside it
			p.mu.Lock()
			defer p.mu.Unlock()
			p.t.Fatalf("no %q on the terminal, but %q", text, p.text[p.seen:])
		}
	}
}

// All is everything that was on it.
func (p *Terminal) All() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.text)
}

// Type presses keys.
func (p *Terminal) Type(text string) {
	p.t.Helper()
	if _, err := p.master.WriteString(text); err != nil {
		p.t.Errorf("type %q: %v", text, err)
	}
}

// Resize changes the window.
func (p *Terminal) Resize(rows, columns uint16) {
	p.t.Helper()
	conn, err := p.master.SyscallConn()
	if err == nil {
		cerr := conn.Control(func(fd uintptr) {
			err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
		})
		err = errors.Join(err, cerr)
	}
	if err != nil {
		p.t.Errorf("TIOCSWINSZ: %v", err)
	}
}

// HangUp takes the terminal away.
func (p *Terminal) HangUp() { p.master.Close() }
