// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Of signals only the ends of jobs are left. Everything else arrives as it is.
func TestSelective(t *testing.T) {
	message := func(kind byte, fields, body string) string {
		sizes := []byte{8: byte(len(fields)), 11: 0, 0: byte(len(body))}
		return "l" + string([]byte{kind, 0, 1}) + string(sizes) + fields + strings.Repeat("\x00", -len(fields)&7) + body
	}
	ended := message(4, "member JobRemoved", "job 1")
	reply := message(2, "to a call", "JobRemoved")
	theirs, ours := net.Pipe()
	go func() {
		_, _ = theirs.Write([]byte("OK 12\r\n" + message(4, "member UnitNew", "JobRemoved") + ended + message(4, "member", "") + reply))
		theirs.Close()
	}()
	if got, err := io.ReadAll(&selective{Conn: ours}); err != nil || string(got) != "OK 12\r\n"+ended+reply {
		t.Errorf("%q, %v", got, err)
	}
}

// No value can make a field of its own, and none is too long for a datagram.
func TestEntry(t *testing.T) {
	before := directory
	directory = t.TempDir()
	defer func() { directory = before }()
	if err := SendJournal(Info); !errors.Is(err, unix.ENOENT) || JournalExists() {
		t.Errorf("without a journal: %v", err)
	}
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err := errors.Join(err, unix.Bind(socket,
		&unix.SockaddrUnix{Name: directory + "/socket"})); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	fields := []JournalField{{"MESSAGE", "a\nPRIORITY=0\n"}}
	for range 64 {
		fields = append(fields, JournalField{"LONG", strings.Repeat("x", 1<<20)})
	}
	if err := SendJournal(Notice, fields...); err != nil || !JournalExists() {
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

func TestManagerUser(t *testing.T) {
	for path, want := range map[string]int{
		"/user.slice/user-1001.slice/user@1001.service/app.slice/x.service": 1001,
		"/user.slice/user-0.slice/user@0.service/app.slice/x.scope":         0,
		"/user.slice/user-1000.slice/session-3.scope":                       -1,
		"/system.slice/user@x.service":                                      -1,
		"/system.slice/user@-5.service":                                     -1,
		"/":                                                                 -1,
	} {
		if uid, ok := ManagerUser(path); uid != want || ok != (want >= 0) {
			t.Errorf("%s: %d, %v; want %d", path, uid, ok, want)
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
