// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// jsonVersion is the version of all JSON about servers, in which fields are only ever added.
const jsonVersion = 1

// List is the JSON object of servers, and of sessions.
type List[T, S any] struct {
	Version  int `json:"version"`
	Servers  []T `json:"servers"`
	Sessions []S `json:"sessions,omitempty"`
}

// ListOf returns the JSON object of servers.
func ListOf[T any](servers []T) List[T, Server] { return ListWith[T, Server](servers, nil) }

// ListWith returns the JSON object of servers and sessions.
func ListWith[T, S any](servers []T, sessions []S) List[T, S] {
	return List[T, S]{
		Version:  jsonVersion,
		Servers:  append([]T{}, servers...), // an empty list is not null
		Sessions: sessions,
	}
}

// JSON returns v as JSON with a final newline. With an indentation, it has several lines.
func JSON(v any, indent string) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return safe(text.Bytes()), nil
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
