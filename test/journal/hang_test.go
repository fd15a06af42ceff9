// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// A journal that takes nothing any more: who waits for it waits for ever.
func TestHangingJournalDelaysNothing(t *testing.T) {
	b := backends[0]
	before := lifetimes(t, b)
	journald := stopJournald(t)
	fill(t)
	during := lifetimes(t, b)
	s := b.start(t, "hanging", []string{"--stderr", "journal"}, stubborn) // it has to be killed
	s.end()
	if said := s.Said(); said != "" {
		t.Errorf("run said %s", said)
	}
	s = b.start(t, "hung", nil, polite)
	for _, args := range [][]string{{"freeze", "hung"}, {"thaw", "hung"}} {
		b.succeed(t, args...)
	}
	s.end()
	journald.Signal(unix.SIGCONT)
	// A journal that is waited for delays each of them, and what runs beside this test only some.
	usual, hung := slices.Min(before), slices.Min(during)
	t.Logf("start and end, the shortest of %d: %v, and with a journal that hangs %v", len(before), usual, hung)
	if hung-usual > max(100*time.Millisecond, 3*usual) {
		t.Errorf("it takes %v longer", hung-usual)
	}
}

// lifetimes of servers that do nothing.
func lifetimes(t *testing.T, b backend) []time.Duration {
	t.Helper()
	var all []time.Duration
	for range 21 {
		cmd := b.command(t, "run", "--backend", b.name, "--", "true")
		begun := time.Now()
		if r := output(t, cmd); r.status != 0 || r.stderr != "" {
			t.Errorf("%+v", r)
		}
		all = append(all, time.Since(begun))
	}
	return all
}

// stopJournald until the end of the test.
func stopJournald(t *testing.T) *escape.Process {
	t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "--property=MainPID", "systemd-journald.service").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := escape.OpenProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Signal(unix.SIGCONT)
		p.Close()
		// until it has read what waits, it loses what other tests send
		if out, err := exec.Command("journalctl", "--sync").CombinedOutput(); err != nil {
			t.Errorf("journalctl --sync: %v: %s", err, out)
		}
	})
	p.Signal(unix.SIGSTOP)
	return p
}

// fill leaves no room for a datagram.
func fill(t *testing.T) {
	t.Helper()
	for range 100_000 {
		err := sendOne()
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the journal is never full")
}

// sendOne uses a socket of its own: the buffer of one that has sent much is full before the
// journal is.
func sendOne() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, []byte("MESSAGE=x\n"), 0, &unix.SockaddrUnix{Name: "/run/systemd/journal/socket"})
}
