// SPDX-License-Identifier: Apache-2.0

//go:build linux

package signals

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/test/escape"
)

// blockedEnv is set where this binary runs with SIGUSR2 blocked and pending.
const blockedEnv = "SIGNALS_BLOCKED"

func TestMain(m *testing.M) {
	if os.Getenv(blockedEnv) != "" {
		os.Exit(blocked())
	}
	os.Exit(m.Run())
}

// arrives waits for a signal, and throws away others.
func arrives(sig unix.Signal) bool {
	for escape.PollFor(escape.Patience, unix.PollFd{Fd: int32(FD()), Events: unix.POLLIN}) {
		if slices.Contains(Pending(), sig) {
			return true
		}
	}
	return false
}

// Every signal that may be caught, and that the Go runtime does without, arrives.
func TestCatch(t *testing.T) {
	for sig := unix.Signal(1); sig <= last; sig++ {
		switch sig {
		case unix.SIGKILL, unix.SIGSTOP, unix.SIGURG, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS, 32, 33:
			continue
		}
		if err := Catch(sig); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		if !arrives(sig) {
			t.Errorf("signal %d did not arrive", sig)
		}
	}
}

// A signal that the parent blocks arrives as well, also if it was pending before.
func TestBlockedByTheParent(t *testing.T) {
	cmd := exec.Command("env", "--block-signal=USR2", "sh", "-c", `kill -USR2 $$; exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), blockedEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func blocked() int {
	if Catch(unix.SIGUSR2) != nil || !arrives(unix.SIGUSR2) {
		return 1
	}
	_ = unix.Kill(os.Getpid(), unix.SIGUSR2)
	if !arrives(unix.SIGUSR2) {
		return 2
	}
	return 0
}
