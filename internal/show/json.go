// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// jsonVersion is that of all JSON about servers, in which fields are only ever added.
const jsonVersion = 1

// JSON prints an object with a version and servers. It returns the exit status of the command with that goal.
func JSON[T any](io cli.Stdio, goal string, servers []T) int {
	object := struct {
		Version int `json:"version"`
		Servers []T `json:"servers"`
	}{jsonVersion, append([]T{}, servers...)}
	if err := PrintJSON(io.Out, object, "  "); err != nil {
		return io.Cannot(goal, err)
	}
	return cli.ExitOK
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
