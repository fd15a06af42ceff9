// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
)

// wire encodes or decodes the fields of a struct in their order: numbers as varints, texts and lists after
// their length. encoding/json would cost every start 0.45 ms.
type wire struct {
	buf     []byte
	decodes bool
	err     error // the first: after it nothing is decoded
}

// Encode encodes a struct whose first field is the version (*Facts, *Config).
func Encode(of any) []byte {
	w := &wire{}
	w.value(reflect.ValueOf(of).Elem())
	return w.buf
}

var errMalformed = errors.New("malformed")

func Decode(b []byte, into any) error {
	w := &wire{buf: b, decodes: true}
	if version, _ := binary.Varint(b); version != ProtocolVersion { // comes first
		return fmt.Errorf("version %d, expected %d", version, ProtocolVersion)
	}
	w.value(reflect.ValueOf(into).Elem())
	if w.err == nil && len(w.buf) > 0 {
		return errMalformed
	}
	return w.err
}

func (w *wire) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			w.value(v.Field(i))
		}
	case reflect.Slice:
		n := w.length(v.Len())
		if w.decodes {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			w.value(v.Index(i))
		}
	case reflect.String:
		n := w.length(v.Len())
		if w.decodes {
			v.SetString(string(w.buf[:n]))
			w.buf = w.buf[n:]
		} else {
			w.buf = append(w.buf, v.String()...)
		}
	case reflect.Bool:
		n := int64(0)
		if v.Bool() {
			n = 1
		}
		v.SetBool(w.number(n) != 0)
	case reflect.Uint64:
		v.SetUint(uint64(w.number(int64(v.Uint()))))
	default: // any other kind panics here
		v.SetInt(w.number(v.Int()))
	}
}

func (w *wire) number(n int64) int64 {
	if !w.decodes {
		w.buf = binary.AppendVarint(w.buf, n)
		return n
	}
	n, size := binary.Varint(w.buf)
	if size <= 0 || w.err != nil {
		w.err = errMalformed
		return 0
	}
	w.buf = w.buf[size:]
	return n
}

// length accepts what the rest can contain: each character and element takes a byte at least.
func (w *wire) length(n int) int {
	n = int(w.number(int64(n)))
	if w.decodes && (n < 0 || n > len(w.buf)) {
		w.err = errMalformed
		return 0
	}
	return n
}
