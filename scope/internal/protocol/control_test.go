// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestControl(t *testing.T) {
	ours, theirs, err := NewControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if all, closed := ours.Pending(); len(all) > 0 || closed {
		t.Fatalf("at first: %v, %v", all, closed)
	}
	if err := theirs.Send(Message{Type: SayStarted}, int(os.Stdout.Fd()), int(os.Stderr.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := theirs.Send(Message{Type: SayEnded, Notes: []string{"a", "ü"}}); err != nil {
		t.Fatal(err)
	}
	if err := ours.Send(Message{Type: SayLook}); err != nil { // which nobody reads
		t.Fatal(err)
	}
	theirs.Close()
	all, closed := ours.Pending()
	if !closed || len(all) != 2 || len(all[0].FDs) != 2 || all[1].Type != SayEnded || !slices.Equal(all[1].Notes, []string{"a", "ü"}) {
		t.Fatalf("after the close: %+v, %v", all, closed)
	}
	for _, fd := range all[0].FDs {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would be inherited (%v)", fd, err)
		}
		_ = unix.Close(fd)
	}
	for _, want := range []error{unix.ECONNRESET, unix.EPIPE} { // the first for what was not read
		if err := ours.Send(Message{Type: SayLook}); !errors.Is(err, want) {
			t.Errorf("to a closed end: %v", err)
		}
	}
}

// A peer that does not read must not be able to hold us up.
func TestSendNeverBlocks(t *testing.T) {
	ours, theirs, err := NewControl()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	for err == nil {
		err = ours.Send(Message{Type: SaySignal, Signal: 10})
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
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

func TestParsePressure(t *testing.T) {
	const both = "some avg10=1.50 avg60=0.25 avg300=0.00 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"
	p, ok := parsePressure(both)
	if !ok || p.Avg10 != 1.5 || p.Avg60 != 0.25 || p.Some != 2.5 || p.Full == nil || *p.Full != 0.5 {
		t.Errorf("%+v, %v", p, ok)
	}
	p, ok = parsePressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n") // of the processor, before 5.13
	if !ok || p.Full != nil || p.Some != 7e-6 {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, bad := range []string{"", "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", "some avg10=x\n", "some"} {
		if p, ok := parsePressure(bad); ok {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}
