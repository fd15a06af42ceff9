// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// blockedEnv is set where this binary runs with SIGUSR2 blocked and pending.
const blockedEnv = "SIGNALS_BLOCKED"

func TestMain(m *testing.M) {
	if os.Getenv(blockedEnv) != "" {
		os.Exit(blocked())
	}
	os.Exit(m.Run())
}

func arrives(c <-chan os.Signal, sig unix.Signal) bool {
	for deadline := time.After(10 * time.Second); ; {
		select {
		case got := <-c:
			if got == os.Signal(sig) {
				return true
			}
		case <-deadline:
			return false
		}
	}
}

// Every signal that may be caught, and that the Go runtime does without, arrives on the channel of the last that asked.
func TestNotify(t *testing.T) {
	first, c := make(chan os.Signal, 1), make(chan os.Signal, 1)
	if err := Notify(first, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	for sig := unix.Signal(1); sig <= last; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, 32, 33:
			continue
		}
		if err := Notify(c, sig); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if !arrives(c, sig) {
			t.Errorf("signal %d did not arrive", sig)
		}
	}
	if len(first) > 0 {
		t.Error("a channel got what another one had asked for since")
	}
}

// A full channel loses signals, and holds up nobody.
func TestFullChannel(t *testing.T) {
	full, c := make(chan os.Signal), make(chan os.Signal, 1)
	if err := Notify(full, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	_ = Notify(c, unix.SIGUSR2) // the second can't fail
	_ = unix.Kill(os.Getpid(), unix.SIGUSR1)
	_ = unix.Kill(os.Getpid(), unix.SIGUSR2)
	if !arrives(c, unix.SIGUSR2) {
		t.Error("it waits for a channel that nobody reads")
	}
}

// What the parent blocks arrives as well, also if it was pending before.
func TestBlockedByTheParent(t *testing.T) {
	cmd := exec.Command("env", "--block-signal=USR2", "sh", "-c", `kill -USR2 $$; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), blockedEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func blocked() int {
	c := make(chan os.Signal, 1)
	if Notify(c, unix.SIGUSR2) != nil || !arrives(c, unix.SIGUSR2) {
		return 1
	}
	_ = unix.Kill(os.Getpid(), unix.SIGUSR2)
	if !arrives(c, unix.SIGUSR2) {
		return 2
	}
	return 0
}
