// SPDX-License-Identifier: Apache-2.0

//go:build linux

package protocol

import (
	"encoding/binary"
	"errors"
)

// wire encodes and decodes the configuration: a list of
// fields, the same for both directions. encoding/json would cost every start 0.45 ms.
type wire struct {
	buf     []byte
	decodes bool
	err     error // the first: after it nothing is decoded
}

// fields is what can be told.
type fields interface{ fields(w *wire) }

func Encode(v fields) []byte {
	w := &wire{}
	v.fields(w)
	return w.buf
}

// errMalformed: the other side speaks another language, or is not the other side.
var errMalformed = errors.New("malformed")

func Decode(b []byte, v fields) error {
	w := &wire{buf: b, decodes: true}
	v.fields(w)
	if w.err == nil && len(w.buf) > 0 {
		w.err = errMalformed
	}
	return w.err
}

// number is signed on the wire, and as large as it may be.
func number[T ~int | ~int64 | ~uint32 | ~uint64](w *wire, v *T) {
	if !w.decodes {
		w.buf = binary.AppendVarint(w.buf, int64(*v))
		return
	}
	n, size := binary.Varint(w.buf)
	if size <= 0 || w.err != nil {
		w.err = errMalformed
		return
	}
	*v, w.buf = T(n), w.buf[size:]
}

func text[T ~string](w *wire, v *T) {
	size := len(*v)
	number(w, &size)
	if !w.decodes {
		w.buf = append(w.buf, *v...)
		return
	}
	if size < 0 || size > len(w.buf) || w.err != nil {
		w.err = errMalformed
		return
	}
	*v, w.buf = T(w.buf[:size]), w.buf[size:]
}

func flag(w *wire, v *bool) {
	n := 0
	if *v {
		n = 1
	}
	number(w, &n)
	*v = n != 0
}

func texts(w *wire, v *[]string) {
	count := len(*v)
	number(w, &count)
	if w.decodes {
		if count < 0 || count > len(w.buf) || w.err != nil { // each takes a byte at least
			w.err = errMalformed
			return
		}
		*v = make([]string, count)
	}
	for i := range *v {
		text(w, &(*v)[i])
	}
}
