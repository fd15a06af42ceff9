// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package facts changes what a group says of its server, or of what was kept, as any process of its user can.
package facts

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Set changes the facts in a payload's directory. One without facts is armed by that.
func Set(t *testing.T, payload string, do func(*protocol.Facts)) {
	t.Helper()
	facts := protocol.Facts{Version: protocol.ProtocolVersion}
	change(t, payload, "user.mcpscope.armed", &facts, func() { do(&facts) })
}

// SetKept changes what the directory of kept processes says of them.
func SetKept(t *testing.T, dir string, do func(*protocol.Kept)) {
	t.Helper()
	kept := protocol.Kept{Version: protocol.ProtocolVersion}
	change(t, dir, "user.mcpscope.kept", &kept, func() { do(&kept) })
}

func change(t *testing.T, dir, attribute string, of any, do func()) {
	t.Helper()
	text := make([]byte, 64<<10)
	n, err := unix.Getxattr(dir, attribute, text)
	if err == nil {
		err = protocol.Decode(text[:n], of)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) {
		t.Fatal(err)
	}
	do()
	if err := unix.Setxattr(dir, attribute, protocol.Encode(of), 0); err != nil {
		t.Fatal(err)
	}
}
