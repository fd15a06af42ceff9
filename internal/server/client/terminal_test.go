// SPDX-License-Identifier: Apache-2.0

package client

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openPty makes a terminal in raw mode.
func openPty(t *testing.T) (master, slave int) {
	t.Helper()
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("SKIP: no terminal can be made: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(master) }) // it may be closed
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	const how = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, how)
	if errno != 0 {
		t.Fatal(errno)
	}
	setMode(t, int(fd), 0)
	return master, int(fd)
}

func setMode(t *testing.T, fd int, flags uint32) {
	t.Helper()
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Lflag = flags
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
}

// A key that waits for Enter, or that becomes a signal, does not wake a frozen program.
func TestIsRaw(t *testing.T) {
	master, slave := openPty(t)
	defer unix.Close(slave)
	terminal, err := openTerminal(slave)
	if err != nil || terminal < 0 {
		t.Fatal(terminal, err)
	}
	defer unix.Close(int(terminal))
	for flags, want := range map[uint32]bool{0: true, unix.ICANON: false, unix.ISIG: false, unix.ECHO: true} {
		setMode(t, slave, flags)
		if got, err := terminal.IsRaw(); got != want || err != nil {
			t.Errorf("mode %#x: %v, want %v; %v", flags, got, want, err)
		}
	}
	_ = unix.Close(master) // a terminal
	if raw, err := terminal.IsRaw(); raw || err == nil {
		t.Error("a closed terminal gives keys")
	}
	for _, other := range []string{"/dev/null", "/dev/tty", "/"} {
		file, err := os.Open(other)
		if err != nil {
			continue // there is no controlling terminal
		}
		if got, err := openTerminal(int(file.Fd())); got != -1 || err != nil {
			t.Errorf("%s: %v, %v", other, got, err)
		}
		_ = file.Close() // it was only opened
	}
}

// A terminal is watched, and not held: the program on its other side sees when no process has it any more.
func TestTerminalIsNotHeld(t *testing.T) {
	master, slave := openPty(t)
	terminal, err := openTerminal(slave)
	if err != nil || terminal < 0 {
		t.Fatal(terminal, err)
	}
	defer unix.Close(int(terminal))
	keys, err := newWatch(slave, input)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(int(keys))
	if keys.Readable() {
		t.Error("input before any key")
	}
	if _, err := unix.Write(master, []byte("x")); err != nil {
		t.Fatal(err)
	}
	comes := []unix.PollFd{{Fd: int32(keys), Events: unix.POLLIN}}
	if _, err := unix.Poll(comes, -1); err != nil || !keys.Readable() {
		t.Errorf("a key is no input: %v", err)
	}
	_ = unix.Close(slave) // as a program that ends
	polls := []unix.PollFd{{Fd: int32(master), Events: unix.POLLIN}}
	if _, err := unix.Poll(polls, 0); err != nil || polls[0].Revents&unix.POLLHUP == 0 {
		t.Errorf("the other side sees no end: %#x, %v", polls[0].Revents, err)
	}
}

// The end of a terminal is an event, and no unread input.
func TestClosedTerminalHasNoInput(t *testing.T) {
	master, slave := openPty(t)
	defer unix.Close(slave)
	keys, err := newWatch(slave, input)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(int(keys))
	_ = unix.Close(master) // a terminal
	if !keys.Fired() {
		t.Error("no event: a frozen program would not end")
	}
	if keys.Readable() {
		t.Error("its end counts as unread input, for which a stop waits")
	}
}
