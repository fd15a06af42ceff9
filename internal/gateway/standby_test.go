// SPDX-License-Identifier: Apache-2.0

//go:build linux

package gateway

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A server is ended when the socket to its supervisor hangs up, and not for lack of descriptors.
func TestAwaitHangUpWithoutDescriptors(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	hungUp := make(chan struct{})
	go func() {
		awaitHangUp(fds[0])
		close(hungUp)
	}()
	early := false
	select {
	case <-hungUp:
		early = true
	case <-time.After(100 * time.Millisecond): // nothing is to happen
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fds[1]) // it hangs up
	if early {
		t.Fatal("a socket that nobody has closed counts as hung up")
	}
	select {
	case <-hungUp:
	case <-time.After(20 * time.Second):
		t.Error("the end is not noticed")
	}
}
