// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package facts changes what a server's group says of it, as any process of its user can.
package facts

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/server/protocol"
)

// Set changes the facts in a payload's directory. One without facts is armed by that.
func Set(t *testing.T, payload string, change func(*protocol.Facts)) {
	t.Helper()
	const attribute = "user.mcpscope.armed"
	facts := protocol.Facts{Version: protocol.ProtocolVersion}
	text := make([]byte, 64<<10)
	n, err := unix.Getxattr(payload, attribute, text)
	if err == nil {
		err = protocol.Decode(text[:n], &facts)
	}
	if err != nil && !errors.Is(err, unix.ENODATA) {
		t.Fatal(err)
	}
	change(&facts)
	if err := unix.Setxattr(payload, attribute, protocol.Encode(&facts), 0); err != nil {
		t.Fatal(err)
	}
}
