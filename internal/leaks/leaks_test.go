// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaks

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// A process that somebody can reach by an address is a daemon; a connection alone makes none.
func TestListens(t *testing.T) {
	self := &Leak{PID: os.Getpid()}
	if self.listens() {
		t.Error("before there is a listener")
	}
	for network, address := range map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0", "unix": filepath.Join(t.TempDir(), "socket")} {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Logf("no %s here: %v", network, err)
			continue
		}
		if !self.listens() {
			t.Errorf("a listener (%s) is not seen", network)
		}
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if self.listens() {
			t.Errorf("a connection (%s) is taken for a listener", network)
		}
		c.Close()
	}
}
