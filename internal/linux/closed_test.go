// SPDX-License-Identifier: Apache-2.0

//go:build linux

package linux

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe or socket is closed when nobody has its other end any more, whoever that was.
func TestClosed(t *testing.T) {
	readIn, writeIn := pipe(t)
	readOut, writeOut := pipe(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := func(in, out int) int {
		cmd := exec.Command("sleep", "1000")
		if in >= 0 { // otherwise /dev/null
			theirIn, theirOut := os.NewFile(uintptr(in), "in"), os.NewFile(uintptr(out), "out")
			defer theirIn.Close()
			defer theirOut.Close()
			cmd.Stdin, cmd.Stdout = theirIn, theirOut
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // it sleeps
			_ = cmd.Wait()         // killed
		})
		return cmd.Process.Pid
	}
	again, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	piped, connected, others := start(readIn, writeOut), start(pair[0], again), start(-1, -1)
	want := func(what string, pid int, in, out bool) {
		t.Helper()
		if got := [2]bool{Closed(pid, 0), Closed(pid, 1)}; got != [2]bool{in, out} {
			t.Errorf("%s: stdin and stdout are closed: %v", what, got)
		}
	}
	want("pipes that we hold", piped, false, false)
	want("a socket that we hold", connected, false, false)
	_ = unix.Close(writeIn)
	want("a pipe without writer", piped, true, false)
	_ = unix.Close(readOut)
	want("pipes that nobody holds", piped, true, true)
	_ = unix.Close(pair[1])
	want("a socket that nobody holds", connected, true, true)
	want("/dev/null", others, false, false)
	want("nobody", 1<<30, false, false)
}
