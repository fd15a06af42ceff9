// SPDX-License-Identifier: Apache-2.0

//go:build linux

package systemd

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// at has the sockets in another directory for the length of a test.
func at(t *testing.T, dir string) {
	before := directory
	directory = dir
	t.Cleanup(func() { directory = before })
}

func listen(t *testing.T, kind int, name string) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestNoJournal(t *testing.T) {
	at(t, t.TempDir())
	if err := SendJournal(JournalEntry(Info)); !errors.Is(err, ErrNoJournal) || JournalExists() {
		t.Errorf("Send: %v", err)
	}
	if _, err := JournalStream("x", Info); !errors.Is(err, ErrNoJournal) {
		t.Errorf("Stream: %v", err)
	}
}

// No value can make a field of its own, and none is too long for a datagram.
func TestEntry(t *testing.T) {
	at(t, t.TempDir())
	socket := listen(t, unix.SOCK_DGRAM, directory+"/socket")
	fields := []JournalField{{"MESSAGE", "a\nPRIORITY=0\n"}}
	for range 64 {
		fields = append(fields, JournalField{"LONG", strings.Repeat("x", 1<<20)})
	}
	if err := SendJournal(JournalEntry(Notice, fields...)); err != nil || !JournalExists() {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	n, err := unix.Read(socket, got)
	if err != nil {
		t.Fatal(err)
	}
	want := "PRIORITY\n\x01\x00\x00\x00\x00\x00\x00\x005\nMESSAGE\n\x0d\x00\x00\x00\x00\x00\x00\x00a\nPRIORITY=0\n\nLONG\n\x00\x08\x00\x00\x00\x00\x00\x00xxx"
	if !bytes.HasPrefix(got[:n], []byte(want)) {
		t.Errorf("%.200q", got[:n])
	}
}

func TestStream(t *testing.T) {
	at(t, t.TempDir())
	listener := listen(t, unix.SOCK_STREAM, directory+"/stdout")
	if err := unix.Listen(listener, 0); err != nil {
		t.Fatal(err)
	}
	fd, err := JournalStream("who\nis it", Info)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
		t.Errorf("flags %#x, %v: a server's writes would fail", flags, err)
	}
	// who has not been accepted takes the only place to wait at
	second, err := JournalStream("second", Info)
	if err == nil {
		_ = unix.Close(second)
		_, err = JournalStream("third", Info)
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Errorf("of a journal that does not accept: %v", err)
	}
	conn, _, err := unix.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(conn)
	if _, err := unix.Write(fd, []byte("line\n")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 100)
	n, err := unix.Read(conn, got)
	if want := "who is it\n\n6\n1\n0\n0\n0\nline\n"; string(got[:n]) != want || err != nil {
		t.Errorf("%q, %v", got[:n], err)
	}
}

func TestUnitOf(t *testing.T) {
	for path, want := range map[string]struct {
		unit string
		kind Kind
	}{
		"/":                                    {"", System},
		"/system.slice/hermes.service":         {"hermes.service", System},
		"/system.slice/hermes.service/gw/leaf": {"hermes.service", System},
		"/user.slice/user-1000.slice/session-3.scope":                                        {"session-3.scope", System},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/hermes-gateway.service":     {"hermes-gateway.service", User},
		"/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.slice/app-code.scope": {"app-code.scope", User},
		"/user.slice/user-1000.slice/user@1000.service/init.scope":                           {"init.scope", User},
		"/user.slice/user-1000.slice/user@1000.service/mcp.slice/mcp-a-b.scope/payload":      {"mcp-a-b.scope", User},
		"/user.slice/user-1001.slice/user@1001.service/app.slice/x.service":                  {"x.service", System},
		"/init.scope":                {"init.scope", System},
		"/system.slice/_cpu.service": {"cpu.service", System},
		"/docker/abc":                {"", System},
	} {
		unit, kind, ok := UnitOf(path, 1000)
		if unit != want.unit || kind != want.kind || ok != (want.unit != "") {
			t.Errorf("%s: %q, %q, %v; want %q, %q", path, unit, kind, ok, want.unit, want.kind)
		}
	}
}

func FuzzUnitOf(f *testing.F) {
	f.Add("/a/b.service//c")
	f.Fuzz(func(t *testing.T, path string) {
		if unit, _, ok := UnitOf(path, 0); ok && unit == "" {
			t.Fatalf("%q is in a unit without a name", path)
		}
	})
}

func TestSlicePath(t *testing.T) {
	for slice, want := range map[string]string{
		"mcp.slice": "mcp.slice", "a-b-c.slice": "a.slice/a-b.slice/a-b-c.slice", "-.slice": "",
	} {
		if got := SlicePath(slice); got != want {
			t.Errorf("%s: %q, want %q", slice, got, want)
		}
	}
}
