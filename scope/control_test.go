//go:build linux

package scope

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/resources"
	"github.com/mcpscope/mcpscope/stdio"
)

func TestControl(t *testing.T) {
	ours, theirs, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.close()
	if all, closed := ours.pending(); len(all) > 0 || closed {
		t.Fatalf("at first: %v, %v", all, closed)
	}
	if err := theirs.send(message{Type: sayStarted}, int(os.Stdout.Fd()), int(os.Stderr.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := theirs.send(message{Type: sayEnded, Notes: []string{"a", "ü"}}); err != nil {
		t.Fatal(err)
	}
	if err := ours.send(message{Type: sayLook}); err != nil { // which nobody reads
		t.Fatal(err)
	}
	theirs.close()
	all, closed := ours.pending()
	if !closed || len(all) != 2 || len(all[0].fds) != 2 || all[1].Type != sayEnded || !slices.Equal(all[1].Notes, []string{"a", "ü"}) {
		t.Fatalf("after the close: %+v, %v", all, closed)
	}
	for _, fd := range all[0].fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would be inherited (%v)", fd, err)
		}
		_ = unix.Close(fd)
	}
	for _, want := range []error{unix.ECONNRESET, unix.EPIPE} { // the first for what was not read
		if err := ours.send(message{Type: sayLook}); !errors.Is(err, want) {
			t.Errorf("to a closed end: %v", err)
		}
	}
}

// What the other side says last is heard, though we send while it closes its end. Linux 5.10 is where it was lost.
func TestLastWordIsHeard(t *testing.T) {
	for range 1_000 {
		ours, theirs, err := newControl()
		if err != nil {
			t.Fatal(err)
		}
		closed := make(chan error)
		go func() {
			err := theirs.send(message{Type: sayEnded})
			theirs.close()
			closed <- err
		}()
		var said []message
		for gone := false; !gone; {
			_ = ours.send(message{Type: sayLook}) // EPIPE, at last
			var some []message
			some, gone = ours.pending()
			said = append(said, some...)
		}
		if err := <-closed; err != nil || len(said) != 1 || said[0].Type != sayEnded {
			t.Fatalf("%v; it said %v", err, said)
		}
		ours.close()
	}
}

// A peer that does not read must not be able to hold us up.
func TestSendNeverBlocks(t *testing.T) {
	ours, theirs, err := newControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.close()
	defer theirs.close()
	for err == nil {
		err = ours.send(message{Type: saySignal, Signal: 10})
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
}

func TestConfigRoundTrip(t *testing.T) {
	want := &config{
		Version: protocolVersion, Name: "ü", Path: "/bin/\xff", Argv: []string{"a\xfe", "", "c"},
		Place: &placed{ID: "x", Notes: []string{"n"}}, Client: clientFacts{PID: 1, Name: "c", Unit: "u.service"}, StdinFile: stdio.File{Dev: 1 << 63, Ino: 7}, Pgid: 5, Verbose: true,
		Policy: DefaultPolicy(), Limits: resources.Limits{Files: []resources.Limit{{File: "cpu.max", Value: "150000 100000"}}, BestEffort: true}, NoFile: &unix.Rlimit{Cur: 1024, Max: unix.RLIM_INFINITY}, Started: time.Now().UnixNano(), Report: -1,
	}
	fd, err := writeConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := readConfig(fd)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v came back as %+v", want, got)
	}
	want.Version++
	if fd, err = writeConfig(want); err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(fd); err == nil {
		t.Error("a configuration of another version is accepted")
	}
}

// Whoever has got hold of a voice may say anything.
func FuzzMessage(f *testing.F) {
	status := 7
	f.Add(encode(&message{Type: sayEnded, Status: &status, Notes: []string{"a", "b"}, Place: &placed{Notes: []string{"n"}}}))
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		if decode(b, &m) != nil {
			return
		}
		if err := decode(encode(&m), &again); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
