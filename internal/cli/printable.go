// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// acts tells whether a terminal does something else with it than show it: control characters,
// and those that turn the direction of writing.
func acts(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// OneLine keeps what came from outside from writing to the terminal as it likes.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '?'
	}, s)
}

// PrintJSON writes v, with indentation if that is asked for. Package json escapes no more than
// it must; JSON has its strings alone for what we escape beside that.
func PrintJSON(out io.Writer, v any, indent string) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	unsafe := func(r rune) bool { return r != '\n' && acts(r) }
	if bytes.ContainsFunc(text.Bytes(), unsafe) {
		text = escaped(text, unsafe)
	}
	_, err := out.Write(text.Bytes())
	return err
}

// escaped is the text with these characters, all below U+FFFF, as JSON writes them.
func escaped(text bytes.Buffer, them func(rune) bool) (safe bytes.Buffer) {
	for _, r := range text.String() {
		if them(r) {
			fmt.Fprintf(&safe, `\u%04x`, r)
			continue
		}
		safe.WriteRune(r)
	}
	return safe
}
