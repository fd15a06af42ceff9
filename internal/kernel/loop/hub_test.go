// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testHub(t *testing.T) *Hub {
	t.Helper()
	h, err := NewHub()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// many is more than the 500 epoll sets that the kernel allows to have the same file and to be in a set.
const many = 600

// Any number of loops wait for the same descriptor, and each for one of its own.
func TestHubOfMany(t *testing.T) {
	h := testHub(t)
	shared, all := pipes(t)
	var loops []*Loop
	var writes []int
	for range many {
		l := h.Loop()
		own, write := pipes(t)
		for fd, token := range map[int]Token{shared: TokenClient, own: TokenMain} {
			if err := l.Add(fd, token); err != nil {
				t.Fatal(err)
			}
		}
		loops = append(loops, l)
		writes = append(writes, write)
	}
	_ = unix.Close(writes[7])
	if got := loops[7].Next(time.Time{}); got != TokenMain {
		t.Errorf("its own event is reported as %d", got)
	}
	loops[8].Close()
	loops[8].Close() // as after an error
	_ = unix.Close(all)
	for i, l := range loops {
		if i == 8 {
			continue
		}
		if got := l.Next(time.Time{}); got != TokenClient {
			t.Fatalf("loop %d: the common event is reported as %d", i, got)
		}
	}
	late := h.Loop()
	if err := late.Add(shared, TokenClient); err != nil {
		t.Fatal(err)
	}
	if got := late.Next(time.Time{}); got != TokenClient {
		t.Errorf("an event of before is reported as %d", got)
	}
	for i, l := range append(loops, late) {
		if got := l.Next(time.Now()); got != TokenNone {
			t.Errorf("loop %d: reported once more, as %d", i, got)
		}
		l.Close()
	}
	for _, write := range append(writes[:7], writes[8:]...) {
		_ = unix.Close(write)
	}
	if len(h.byFD) > 0 || len(h.byID) > 0 {
		t.Errorf("without loops it waits for %d and %d descriptors", len(h.byFD), len(h.byID))
	}
}

// Any number of servers have the same stdout, each watched by an epoll set of its own.
func TestHubOfManySets(t *testing.T) {
	h := testHub(t)
	file, write := pipes(t)
	var loops []*Loop
	for range many {
		set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(set) })
		if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, file, &unix.EpollEvent{}); err != nil { // its hang-up
			t.Fatal(err)
		}
		l := h.Loop()
		if err := l.Add(set, TokenStdout); err != nil {
			t.Fatal(err)
		}
		loops = append(loops, l)
	}
	if len(h.polled) == 0 {
		t.Error("the kernel allows them all: nothing is tried here")
	}
	_ = unix.Close(write)
	for i, l := range loops {
		if got := l.Next(time.Time{}); got != TokenStdout {
			t.Fatalf("loop %d: the hang-up is reported as %d", i, got)
		}
	}
	last := loops[len(loops)-1]
	if got := last.Next(time.Now()); got != TokenNone {
		t.Errorf("it is reported once more, as %d", got)
	}
	set := last.watched[0]
	last.Again(set, TokenStdout)
	if got := last.Next(time.Time{}); got != TokenStdout {
		t.Errorf("asked for again, it is reported as %d", got)
	}
	for _, l := range loops {
		l.Close()
	}
	if len(h.polled) > 0 || len(h.byFD) > 0 {
		t.Errorf("without loops it waits for %d descriptors", len(h.byFD))
	}
}

// A loop has the events of its own descriptors alone, also when a number is used again.
func TestHubForgets(t *testing.T) {
	h := testHub(t)
	read, write := pipes(t)
	again, err := unix.Dup(read) // as of another process: without a removal the set would keep it
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(again)
	l := h.Loop()
	if err := l.Add(read, TokenStdin); err != nil {
		t.Fatal(err)
	}
	l.Close()
	quiet, other := pipes(t)
	defer unix.Close(other)
	if err := unix.Dup3(quiet, read, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	next := h.Loop()
	if err := next.Add(read, TokenMain); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(write)
	next.Report(TokenAdopted) // behind what the hub has to say of the pipe
	if got := next.Next(time.Time{}); got != TokenAdopted {
		t.Errorf("it reports %d, of a descriptor that is another", got)
	}
	next.Close()
}

// A descriptor that is closed while its loop goes on leaves its number to another loop.
func TestHubForgetsOne(t *testing.T) {
	h := testHub(t)
	read, _ := pipes(t)
	l := h.Loop()
	defer l.Close()
	if err := l.Add(read, TokenClient); err != nil {
		t.Fatal(err)
	}
	l.Forget(read)
	next, write := pipes(t)
	if err := unix.Dup3(next, read, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	other := h.Loop()
	defer other.Close()
	if err := other.Add(read, TokenMain); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(write)
	if got := other.Next(time.Time{}); got != TokenMain {
		t.Errorf("it reports %d", got)
	}
	l.Report(TokenAdopted) // behind what the hub has to say of the pipe
	if got := l.Next(time.Time{}); got != TokenAdopted {
		t.Errorf("the first loop reports %d, of a descriptor that is another's", got)
	}
}

// A deadline is the end of a wait, and an event comes before it.
func TestHubDeadline(t *testing.T) {
	l := testHub(t).Loop()
	defer l.Close()
	if got := l.Next(time.Now().Add(time.Millisecond)); got != TokenNone {
		t.Errorf("without an event it reports %d", got)
	}
	l.Report(TokenMain)
	if got := l.Next(time.Now()); got != TokenMain {
		t.Errorf("with an event it reports %d", got)
	}
}
