// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/freeze"
)

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	empty, bin, later := filepath.Join(dir, "empty"), filepath.Join(dir, "bin"), filepath.Join(dir, "later")
	for _, d := range []string{empty, bin, later, filepath.Join(bin, "folder")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for file, mode := range map[string]os.FileMode{"bin/good": 0o755, "bin/plain": 0o644, "bin/both": 0o644, "later/both": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(bin)
	path := empty + ":/nonexistent:" + bin + ":" + later
	for _, c := range []struct {
		command, path, want string
		errno               unix.Errno
	}{
		{"good", path, bin + "/good", 0},
		{"good", "", "./good", 0},
		{"both", path, later + "/both", 0}, // not executable here, so the search goes on
		{"plain", path, "", unix.EACCES},
		{"folder", path, "", unix.EISDIR},
		{"missing", path, "", unix.ENOENT},
		{"", path, "", unix.ENOENT},
		{bin, path, "", unix.EISDIR},
		{"./good/x", path, "", unix.ENOTDIR},
	} {
		got, err := Lookup(c.command, c.path)
		if got != c.want || !errors.Is(err, c.errno) && c.errno != 0 || (err == nil) != (c.errno == 0) {
			t.Errorf("%q in %q: %q, %v; want %q, %v", c.command, c.path, got, err, c.want, c.errno)
		}
	}
}

// What was sent before the end is heard with its descriptors, which nobody inherits; and a peer that does
// not read holds nobody up.
func TestControl(t *testing.T) {
	ours, theirs, err := NewControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	for err == nil {
		err = ours.Send(Message{Type: SaySignal, Signal: 10})
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Error(err)
	}
	if err := theirs.Send(Message{Type: SayEnded, Notes: []string{"a", "ü"}},
		int(os.Stdout.Fd())); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	all, closed := ours.Pending()
	if !closed || len(all) != 1 || len(all[0].FDs) != 1 || all[0].Type != SayEnded ||
		!slices.Equal(all[0].Notes, []string{"a", "ü"}) {
		t.Fatalf("after the close: %+v, %v", all, closed)
	}
	defer unix.Close(all[0].FDs[0])
	if flags, err := unix.FcntlInt(uintptr(all[0].FDs[0]), unix.F_GETFD, 0); err != nil ||
		flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("its descriptor would be inherited (%v)", err)
	}
}

// Whoever has got hold of a voice may say anything.
func FuzzMessage(f *testing.F) {
	status := 7
	f.Add(Encode(&Message{Type: SayEnded, Status: &status, Notes: []string{"a", "b"}, Place: &Placed{Notes: []string{"n"}}}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again Message
		if Decode(b, &m) != nil {
			return
		}
		if err := Decode(Encode(&m), &again); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}

// Graces of any length make no bound that is over at once.
func TestLongGraces(t *testing.T) {
	long, err := ParseGrace("60000d")
	p := Policy{EOFGrace: long, TermGrace: long}
	if err != nil || long < 60*365*24*time.Hour || p.AfterHangUp() < long || p.AfterStop() < long {
		t.Errorf("%v, %v: %v after the stop, %v after the end of stdin", long, err, p.AfterStop(), p.AfterHangUp())
	}
}

func TestParseGrace(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1.2s": 1200 * time.Millisecond, "500ms": 500 * time.Millisecond, "1h": time.Hour, "infinity": freeze.Forever,
		"1d": 24 * time.Hour, "1.5d": 36 * time.Hour, "2d12h": 60 * time.Hour, "0d": 0,
	} {
		if got, err := ParseGrace(text); err != nil || got != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "-1s", "soon", "1e9s", "inf", "9999999999h", "1s ", "d", "1dd", "1hd", "-1d", "1d-1h", "99999999d", "1d1", "infinityd", "1 d"} {
		if got, err := ParseGrace(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// The whole ladder is over before the clients that kill after closing stdin do.
func TestDefaultsAreWithinTheClientsPatience(t *testing.T) {
	p := DefaultPolicy()
	if sum := p.EOFGrace + p.TermGrace; sum >= 3*time.Second || p.EOFGrace < time.Second {
		t.Errorf("%v and %v: rmcp kills at 3 s, and answers may take 1 s", p.EOFGrace, p.TermGrace)
	}
}
