// SPDX-License-Identifier: Apache-2.0

//go:build linux

package freeze

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// Flag is raised once, from any goroutine, and wakes a ladder. A nil Flag is never
// raised.
type Flag struct{ eventfd int }

// NewFlag makes a Flag, which holds one descriptor until it is closed.
func NewFlag() (*Flag, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create eventfd: %w", err)
	}
	return &Flag{eventfd: fd}, nil
}

// Raise raises the flag; to do so again changes nothing.
func (f *Flag) Raise() {
	_, _ = unix.Write(f.eventfd, binary.NativeEndian.AppendUint64(nil, 1)) // EAGAIN: raised already
}

// Close gives the descriptor back.
func (f *Flag) Close() { _ = unix.Close(f.eventfd) }

func (f *Flag) fd() int {
	if f == nil {
		return -1
	}
	return f.eventfd
}
