// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/godbus/dbus/v5"
)

// message is a line of a D-Bus connection's handshake, or a message after that, whole.
type message []byte

// next reads one. Every byte that begins a line differs from 'l', which says that a
// message is little-endian.
func next(r *bufio.Reader) (message, error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, err
	}
	if first[0] != 'l' {
		line, err := r.ReadBytes('\n')
		return line, err
	}
	head, err := r.Peek(16)
	if err != nil {
		return nil, err
	}
	fields := int(binary.LittleEndian.Uint32(head[12:]))
	body := int(binary.LittleEndian.Uint32(head[4:]))
	all := make(message, 16+(fields+7)/8*8+body)
	_, err = io.ReadFull(r, all)
	return all, err
}

func (m message) isLine() bool { return m[0] != 'l' }

func (m message) decode() *dbus.Message {
	if m.isLine() {
		return nil
	}
	d, err := dbus.DecodeMessage(bytes.NewReader(m))
	if err != nil {
		return nil
	}
	return d
}

// label says what it is, for a point's name.
func (m message) label() string {
	if m.isLine() {
		word, _, _ := bytes.Cut(bytes.Trim(m, "\x00\r\n"), []byte(" "))
		return string(word)
	}
	d := m.decode()
	if d == nil {
		return "unknown"
	}
	kind := map[dbus.Type]string{
		dbus.TypeMethodCall: "call", dbus.TypeMethodReply: "reply", dbus.TypeError: "error", dbus.TypeSignal: "signal",
	}[d.Type]
	if member, has := d.Headers[dbus.FieldMember]; has {
		return fmt.Sprint(kind, " ", member.Value())
	}
	return kind
}

// refusal is the answer of one who does not do what m asks, or what m would have answered. It
// is nil for a message that is not about doing anything.
func (m message) refusal() message {
	if m.isLine() {
		return message("REJECTED EXTERNAL\r\n")
	}
	d := m.decode()
	if d == nil {
		return nil
	}
	about := dbus.MakeVariant(d.Serial())
	switch d.Type {
	case dbus.TypeMethodReply:
		about = d.Headers[dbus.FieldReplySerial]
	case dbus.TypeMethodCall:
	default:
		return nil
	}
	no := &dbus.Message{
		Type: dbus.TypeError,
		Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldErrorName:   dbus.MakeVariant("org.freedesktop.DBus.Error.LimitsExceeded"),
			dbus.FieldReplySerial: about,
			dbus.FieldSignature:   dbus.MakeVariant(dbus.SignatureOf("")),
		},
		Body: []any{"as the test wants it"},
	}
	var out bytes.Buffer
	if err := no.EncodeTo(&out, binary.LittleEndian); err != nil {
		return nil
	}
	// EncodeTo leaves the serial at 0, which no message may have
	b := out.Bytes()
	binary.LittleEndian.PutUint32(b[8:], 0x7fffffff)
	return b
}
