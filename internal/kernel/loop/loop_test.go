// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func testLoop(t *testing.T) *Loop {
	t.Helper()
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// pipes returns the ends of a pipe.
func pipes(t *testing.T) (read, write int) {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(ends[0]) })
	return ends[0], ends[1]
}

// The end of a pipe is reported once, until Again is called; of several that come together none is lost.
func TestLoopReportsEachOnce(t *testing.T) {
	l := testLoop(t)
	want := []Token{TokenStdin, TokenStdout, TokenGuard}
	first := 0
	for i, token := range want {
		read, write := pipes(t)
		if err := l.Add(read, token); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(write) // nothing was written
		if i == 0 {
			first = read
		}
	}
	var got []Token
	for range want {
		got = append(got, l.Next(time.Time{}))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("reported: %v, want %v", got, want)
	}
	late, write := pipes(t)
	if err := l.Add(late, TokenInput); err != nil {
		t.Fatal(err)
	}
	go func() { _ = unix.Close(write) }()
	if got := l.Next(time.Time{}); got != TokenInput {
		t.Errorf("%v was reported while it waited, want %v", got, TokenInput)
	}
	l.Again(first, TokenStdin)
	if again := l.Next(time.Time{}); again != TokenStdin {
		t.Errorf("asked again, and %v was reported, want %v", again, TokenStdin)
	}
}

// The deadline ends the wait, and not before it has passed.
func TestLoopWaitsForTheDeadline(t *testing.T) {
	l := testLoop(t)
	for range 20 {
		deadline := time.Now().Add(1500 * time.Microsecond)
		if token := l.Next(deadline); token != TokenNone || time.Now().Before(deadline) {
			t.Errorf("%v was reported %v before the deadline", token, time.Until(deadline))
		}
	}
}

// Signals arrive by the loop, also while it waits, and a signal that it does not catch does not end the wait.
func TestLoopCatches(t *testing.T) {
	l := testLoop(t)
	if err := l.Catch(unix.SIGUSR1, unix.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	go func() {
		for _, sig := range []unix.Signal{unix.SIGCONT, unix.SIGURG, unix.SIGUSR2} { // URG is the runtime's
			_ = unix.Kill(unix.Getpid(), sig) // our own
		}
	}()
	for got := []unix.Signal(nil); !slices.Contains(got, unix.SIGUSR2); got = l.Signals() {
		if token := l.Next(time.Time{}); token != TokenSignals {
			t.Fatalf("%v was reported, want %v", token, TokenSignals)
		}
	}
}
