// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"slices"
)

// selective is a connection without signals but JobRemoved. On a private connection a manager sends all of
// them, with all properties of units: to decode those of one scope takes 4,000 allocations, and as nothing
// collects them, a third of a launcher's memory for as long as it lives.
type selective struct {
	net.Conn
	message []byte
	left    []byte // what has not been read of it
}

func (s *selective) Read(to []byte) (int, error) {
	const header, signal = 16, 4 // bytes before the header fields; a type of message
	for len(s.left) == 0 {
		// A message begins with its byte order. The authentication before has no such letter.
		if n, err := s.Conn.Read(to[:1]); n == 0 || to[0] != 'l' || err != nil {
			return n, err
		}
		m := append(slices.Grow(s.message[:0], header), to[0])[:header]
		if _, err := io.ReadFull(s.Conn, m[1:]); err != nil {
			return 0, err
		}
		fields := int(binary.LittleEndian.Uint32(m[12:]))
		body := int(binary.LittleEndian.Uint32(m[4:]))
		m = slices.Grow(m, fields+7+body)[:header+(fields+7)&^7+body]
		if _, err := io.ReadFull(s.Conn, m[header:]); err != nil {
			return 0, err
		}
		s.message = m
		if m[1] != signal || bytes.Contains(m[:header+fields], []byte("JobRemoved")) {
			s.left = m
		}
	}
	n := copy(to, s.left)
	s.left = s.left[n:]
	return n, nil
}
