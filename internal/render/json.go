// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// jsonVersion is that of all JSON about servers, in which fields are only ever added.
const jsonVersion = 1

// WriteJSON writes an object with a version and servers.
func WriteJSON[T any](out io.Writer, servers []T) error {
	return WriteListJSON[T, Session](out, servers, nil)
}

// WriteListJSON is WriteJSON for servers and sessions.
func WriteListJSON[T, S any](out io.Writer, servers []T, sessions []S) error {
	object := struct {
		Version  int `json:"version"`
		Servers  []T `json:"servers"`
		Sessions []S `json:"sessions,omitempty"`
	}{
		Version:  jsonVersion,
		Servers:  append([]T{}, servers...), // an empty list is not null
		Sessions: sessions,
	}
	return PrintJSON(out, object, "  ")
}

// PrintJSON writes v. With an indentation, it is printed on several lines.
func PrintJSON(out io.Writer, v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := out.Write(safe(text.Bytes()))
	return err
}

// safe escapes what a terminal would act on and package json leaves: all below U+FFFF, and in strings alone.
func safe(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}
