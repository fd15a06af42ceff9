// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The next process has its turn when the one before has ended it. A descriptor that a child has inherited
// does not keep it.
func TestTurn(t *testing.T) {
	dir := t.TempDir()
	first := awaitTurn(dir, time.Hour)
	if first == noTurn {
		t.Fatal("no turn where nobody has one")
	}
	inherited, err := unix.Dup(first.fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	next := make(chan turn)
	go func() { next <- awaitTurn(dir, time.Hour) }()
	if late := awaitTurn(dir, time.Millisecond); late != noTurn {
		t.Error("two have the turn")
	}
	select {
	case <-next:
		t.Fatal("two have the turn")
	default:
	}
	first.end()
	second := <-next
	if second == noTurn {
		t.Fatal("no turn after the first one")
	}
	second.end()
	// The wait that was given up does not keep the lock.
	third := awaitTurn(dir, time.Hour)
	if third == noTurn {
		t.Fatal("no turn after a wait that was given up")
	}
	third.end()
}

func TestTurnWithoutDirectory(t *testing.T) {
	got := awaitTurn(t.TempDir()+"/none", time.Hour)
	if got != noTurn {
		t.Errorf("a turn: %v", got)
	}
	got.end()
}
